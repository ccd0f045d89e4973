"use strict";
// One `Study` for each picture: its map by the chosen method, and the attention of the chosen layer, head and patch.

const STOPS = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]]; // inferno

function colour(share) {
  const at = share * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, i) => value + (STOPS[low + 1][i] - value) * (at - low));
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function percent(value, of) {
  return `${(100 * value) / of}%`;
}

// One pixel for each cell; the browser enlarges them.
function paint(canvas, [rows, columns], values) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  values.forEach((value, i) => {
    const share = value / 255;
    image.data.set([...colour(share), 255 * (0.35 + 0.45 * share)], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

function setUpMap(section, told) {
  const canvas = section.querySelector(".of-map canvas");
  const show = (method) => paint(canvas, told.grid, bytes(told.maps[method]));
  for (const input of section.querySelectorAll("fieldset input")) {
    input.addEventListener("change", () => show(input.value));
    if (input.checked) show(input.value);
  }
}

class Attention {
  constructor(figure, told) {
    this.told = told;
    [this.rows, this.columns] = told.grid;
    [this.high, this.wide] = told.fit; // cells in the picture: of the last row and column perhaps a part
    this.cells = this.rows * this.columns;
    this.shares = bytes(told.shares);
    this.largest = new Float32Array(bytes(told.largest).buffer);
    this.asked = -1; // a cell, or the answer itself
    this.stage = figure.querySelector(".stage");
    this.canvas = figure.querySelector("canvas");
    this.mark = figure.querySelector(".asked");
    this.said = figure.querySelector(".said");
    this.layer = figure.querySelector(".layer");
    this.head = figure.querySelector(".head");
    const [height, width] = [percent(this.rows, this.high), percent(this.columns, this.wide)];
    Object.assign(this.canvas.style, { height, width });
    for (const input of [this.layer, this.head]) input.addEventListener("input", () => this.show());
    this.stage.addEventListener("pointermove", (event) => this.point(event));
    this.stage.addEventListener("pointerdown", (event) => this.point(event));
    this.stage.addEventListener("pointerleave", () => this.ask(-1));
    this.stage.addEventListener("keydown", (event) => this.key(event));
    this.show();
  }

  point(event) {
    const box = this.stage.getBoundingClientRect();
    const part = (share, fit, count) => Math.max(0, Math.min(count - 1, Math.floor(share * fit)));
    const row = part((event.clientY - box.top) / box.height, this.high, this.rows);
    this.ask(row * this.columns + part((event.clientX - box.left) / box.width, this.wide, this.columns));
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.ask(-1);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [row, column] = this.asked < 0 ? this.middle() : this.place(this.asked);
    const [down, right] = this.asked < 0 ? [0, 0] : moves[event.key];
    const to = (at, count) => Math.max(0, Math.min(count - 1, at));
    this.ask(to(row + down, this.rows) * this.columns + to(column + right, this.columns));
  }

  middle() {
    return [Math.floor(this.rows / 2), Math.floor(this.columns / 2)];
  }

  place(cell) {
    return [Math.floor(cell / this.columns), cell % this.columns];
  }

  ask(cell) {
    if (cell === this.asked) return;
    this.asked = cell;
    this.show();
  }

  show() {
    const [layer, head] = [Number(this.layer.value), Number(this.head.value)];
    const row = ((layer - 1) * (this.told.heads + 1) + head) * (this.cells + 1) + this.asked + 1;
    const values = this.shares.subarray(row * this.cells, (row + 1) * this.cells);
    paint(this.canvas, this.told.grid, values);
    this.layer.nextElementSibling.value = `${layer} of ${this.told.layers}`;
    this.head.nextElementSibling.value = head ? `${head} of ${this.told.heads}` : "mean of all";
    this.outline();
    const [down, right] = this.place(values.indexOf(255));
    const who = this.asked < 0 ? "The answer" : `Row ${this.place(this.asked)[0] + 1}, column ${this.place(this.asked)[1] + 1}`;
    this.said.textContent =
      `${who} attends most to row ${down + 1}, column ${right + 1}, with ${(100 * this.largest[row]).toFixed(1)} % of its attention.`;
  }

  outline() {
    this.mark.hidden = this.asked < 0;
    const [row, column] = this.place(Math.max(0, this.asked));
    Object.assign(this.mark.style, {
      top: percent(row, this.high), left: percent(column, this.wide),
      height: percent(1, this.high), width: percent(1, this.wide),
    });
  }
}

const told = JSON.parse(document.getElementById("data").textContent);
for (const section of document.querySelectorAll(".study")) {
  const of = told[Number(section.dataset.number)];
  setUpMap(section, of);
  if (of.attention) new Attention(section.querySelector(".of-attention"), of.attention);
}
