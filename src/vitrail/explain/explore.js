{
  const root = document.getElementById("explore");
  const start = () => {
    const facts = JSON.parse(root.dataset.facts);
    const bytes = (name) => Uint8Array.from(atob(root.dataset[name]), (c) => c.charCodeAt(0));
    const attention = bytes("attention");
    const rollout = bytes("rollout");
    const queries = new Int8Array(bytes("queries").buffer);
    const find = (selector) => root.querySelector(selector);
    const { blocks, heads, grid: [rows, columns], patch: [high, wide], front } = facts;
    const inFront = front.length;
    const lookers = inFront + facts.looks[0] * facts.looks[1];
    const seen = inFront + facts.keys[0] * facts.keys[1];
    const share = (byte) => (byte / 255) ** 2;
    const MEAN = -1;
    const state = { block: 0, head: MEAN, token: 0, mode: "looks" };

    /* ---- from a token to places and names */

    const groupOf = (row, column, step, across) => Math.floor(row / step) * across + Math.floor(column / step);
    const corner = (group, step, across) => [Math.floor(group / across) * step, (group % across) * step];
    const middle = (token) => {
      const [row, column] = corner(token - inFront, facts.lookStep, facts.looks[1]);
      const half = Math.floor((facts.lookStep - 1) / 2);
      return [Math.min(rows - 1, row + half), Math.min(columns - 1, column + half)];
    };
    const keyOf = (token) => {
      if (token < inFront) return token;
      const [row, column] = middle(token);
      return inFront + groupOf(row, column, facts.keyStep, facts.keys[1]);
    };
    const sizeOf = (group, step, across) => {
      const [row, column] = corner(group, step, across);
      return Math.min(step, rows - row) * Math.min(step, columns - column);
    };
    const named = (token, step, across) => {
      if (token < inFront) return front[token];
      const [row, column] = corner(token - inFront, step, across);
      if (step === 1) return `patch ${row * columns + column + 1}`;
      return `rows ${row + 1}–${Math.min(rows, row + step)}, columns ${column + 1}–${Math.min(columns, column + step)}`;
    };
    const tokenName = () => named(state.token, facts.lookStep, facts.looks[1]);

    /* ---- shares, one for each token or group: who looks, or what is looked at */

    const oneHead = (head, from, to) => share(attention[((state.block * heads + head) * lookers + from) * seen + to]);
    const weight = (head, from, to) => {
      if (head !== MEAN) return oneHead(head, from, to);
      let sum = 0;
      for (let h = 0; h < heads; h += 1) sum += oneHead(h, from, to);
      return sum / heads;
    };
    const shares = (head) => {
      if (state.mode === "flow") {
        const begin = (state.block * lookers + state.token) * seen;
        return { step: facts.keyStep, across: facts.keys[1], values: Array.from(rollout.slice(begin, begin + seen), share) };
      }
      if (state.mode === "looks") {
        const values = Array.from({ length: seen }, (_, to) => weight(head, state.token, to));
        return { step: facts.keyStep, across: facts.keys[1], values };
      }
      const key = keyOf(state.token);
      const size = key < inFront ? 1 : sizeOf(key - inFront, facts.keyStep, facts.keys[1]);
      const values = Array.from({ length: lookers }, (_, from) => weight(head, from, key) / size);
      return { step: facts.lookStep, across: facts.looks[1], values };
    };

    /* ---- drawing */

    const colour = () => {
      const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      pen.fillStyle = getComputedStyle(root).getPropertyValue("--heat");
      pen.fillRect(0, 0, 1, 1);
      return pen.getImageData(0, 0, 1, 1).data;
    };
    const paint = (canvas, { step, across, values }, ink) => {
      canvas.width = columns;
      canvas.height = rows;
      const pen = canvas.getContext("2d");
      const image = pen.createImageData(columns, rows);
      const each = (row, column) => {
        const group = groupOf(row, column, step, across);
        return values[inFront + group] / (state.mode === "looked" ? 1 : sizeOf(group, step, across));
      };
      let most = 0;
      for (let i = 0; i < rows * columns; i += 1) most = Math.max(most, each(Math.floor(i / columns), i % columns));
      for (let i = 0; i < rows * columns; i += 1) {
        const alpha = most ? each(Math.floor(i / columns), i % columns) / most : 0;
        image.data.set([ink[0], ink[1], ink[2], Math.round(alpha * 225)], i * 4);
      }
      pen.putImageData(image, 0, 0);
    };
    const bars = (list, shown) => {
      const most = Math.max(...shown.map(([, value]) => value), 1e-9);
      list.replaceChildren(...shown.map(([name, value]) => {
        const item = document.createElement("li");
        const words = Object.assign(document.createElement("span"), { textContent: name });
        const bar = document.createElement("i");
        bar.style.setProperty("--s", list.matches(".most") ? value / most : value);
        item.append(words, bar, Object.assign(document.createElement("b"), { textContent: `${(value * 100).toFixed(1)}%` }));
        return item;
      }));
    };
    const strip = () => {
      const head = Math.max(0, state.head);
      const begin = ((state.block * heads + head) * lookers + state.token) * facts.width;
      const values = Array.from(queries.slice(begin, begin + facts.width), (v) => (v / 127) * facts.scale[state.block][head]);
      const most = Math.max(...values.map(Math.abs), 1e-9);
      const cells = values.map((value) => {
        const cell = Object.assign(document.createElement("i"), { title: value.toFixed(2), className: value < 0 ? "minus" : "plus" });
        cell.style.setProperty("--s", Math.abs(value) / most);
        return cell;
      });
      const some = facts.width < facts.dimHead ? `, the first ${facts.width} of ${facts.dimHead} numbers` : "";
      find(".its-query h3").textContent = `Its query in head ${head + 1}${some}`;
      find(".strip").replaceChildren(...cells);
      find(".strip").setAttribute("aria-label", values.map((value) => value.toFixed(2)).join(", "));
    };
    const say = () => {
      const does = { looks: "looks at", looked: "is looked at by", flow: "has gathered from" }[state.mode];
      const head = state.head === MEAN ? "mean of the heads" : `head ${state.head + 1}`;
      const where = state.mode === "flow" ? `After block ${state.block + 1}` : `Block ${state.block + 1}, ${head}`;
      find(".saying").textContent = `${where}: ${tokenName()} ${does}`;
      find("output").textContent = `${state.block + 1} of ${blocks}`;
      find("#block").value = state.block + 1;
    };
    const draw = () => {
      const ink = colour();
      const found = shares(state.head);
      paint(find(".board canvas"), found, ink);
      minis.forEach(([head, button]) => {
        button.setAttribute("aria-pressed", String(head === state.head));
        paint(button.querySelector("canvas"), shares(head), ink);
      });
      find(".heads").hidden = state.mode === "flow";
      const order = found.values.map((value, i) => [named(i, found.step, found.across), value]).sort((a, b) => b[1] - a[1]);
      bars(find(".most"), order.slice(0, 5));
      find(".said").hidden = !facts.answers.length;
      if (facts.answers.length) bars(find(".answers"), facts.answers[state.block]);
      hits.forEach((hit, i) => {
        hit.classList.toggle("chosen", inFront + i === state.token);
        hit.setAttribute("aria-pressed", String(inFront + i === state.token));
        hit.setAttribute("tabindex", inFront + i === Math.max(inFront, state.token) ? "0" : "-1");
      });
      root.querySelectorAll(".front button").forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.token) === state.token)));
      say();
      strip();
    };
    const change = (part) => { Object.assign(state, part); draw(); };

    /* ---- what can be chosen */

    const made = (name, attributes) => {
      const element = document.createElementNS(find(".over").namespaceURI, name);
      Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
      return element;
    };
    const hits = Array.from({ length: lookers - inFront }, (_, group) => {
      const [row, column] = corner(group, facts.lookStep, facts.looks[1]);
      const size = { width: Math.min(facts.lookStep, columns - column) * wide, height: Math.min(facts.lookStep, rows - row) * high };
      const label = named(inFront + group, facts.lookStep, facts.looks[1]);
      const hit = made("rect", { x: column * wide, y: row * high, ...size, role: "button", "aria-label": label });
      hit.addEventListener("click", () => { change({ token: inFront + group }); hit.focus({ preventScroll: true }); });
      return hit;
    });
    find(".over").append(...hits);
    const minis = [MEAN, ...Array.from({ length: heads }, (_, head) => head)].map((head) => {
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.append(document.createElement("canvas"), head === MEAN ? "mean" : `head ${head + 1}`);
      button.addEventListener("click", () => change({ head }));
      return [head, button];
    });
    find(".heads").append(...minis.map(([, button]) => button));
    root.querySelectorAll(".front button").forEach((button) => {
      button.addEventListener("click", () => change({ token: Number(button.dataset.token) }));
    });
    find("#block").addEventListener("input", (event) => change({ block: Number(event.target.value) - 1 }));
    root.querySelectorAll("[name=mode]").forEach((radio) => radio.addEventListener("change", () => change({ mode: radio.value })));

    const moved = (key) => {
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
      const at = Math.max(0, state.token - inFront);
      const row = Math.floor(at / facts.looks[1]) + down;
      const column = (at % facts.looks[1]) + right;
      const inside = row >= 0 && row < facts.looks[0] && column >= 0 && column < facts.looks[1];
      return inside ? row * facts.looks[1] + column : at;
    };
    root.addEventListener("keydown", (event) => {
      const hit = hits.indexOf(event.target);
      if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
      if (hit >= 0 && (event.key === "Enter" || event.key === " ")) change({ token: inFront + hit });
      else if (event.shiftKey && event.key.startsWith("Arrow")) {
        const next = moved(event.key);
        change({ token: inFront + next });
        hits[next].focus({ preventScroll: true });
      } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
        change({ block: Math.min(blocks - 1, Math.max(0, state.block + (event.key === "ArrowUp" ? 1 : -1))) });
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    const chosenRow = Math.floor(facts.chosen / columns);
    state.token = inFront + groupOf(chosenRow, facts.chosen % columns, facts.lookStep, facts.looks[1]);
    root.hidden = false;
    draw();
  };
  if (root) start();
}
