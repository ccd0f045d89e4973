// Drawing: the part of a picture that the model sees, and a veil that attention lifts.

const SIDE = 960;
const VEIL = [12, 13, 24];
const DARKEST = 0.86;
const BRIGHT = 0.95; // of the patches, above which none is brighter: one that takes all would leave the others dark

// The middle of the picture, as the model's preprocessing cuts it: [left, top, width, height] in the picture's pixels.
export const seen = (width, height, { size: [rows, columns], crop }) => {
  const scale = Math.max(rows / crop / height, columns / crop / width);
  const [w, h] = [columns / scale, rows / scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
};

export const draw = (canvas, image, model) => {
  const [rows, columns] = model.size;
  const part = seen(image.naturalWidth, image.naturalHeight, model);
  // Small pictures keep their own pixels, which the page then shows crisply
  const side = Math.min(SIDE, Math.max(1, Math.round(Math.max(part[2], part[3]))));
  canvas.width = Math.max(1, Math.round((side * columns) / Math.max(rows, columns)));
  canvas.height = Math.max(1, Math.round((side * rows) / Math.max(rows, columns)));
  canvas.classList.toggle("pixelated", side <= 64);
  canvas.getContext("2d").drawImage(image, ...part, 0, 0, canvas.width, canvas.height);
};

// Dark where a layer does not look. One pixel a patch, which the browser then smooths.
export const veil = (canvas, [rows, columns], weights) => {
  const small = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  const pixels = new ImageData(columns, rows);
  const sorted = [...weights].sort((a, b) => a - b);
  const [least, most] = [sorted[0], sorted[Math.floor(BRIGHT * (sorted.length - 1))]];
  const lifted = (weight) => Math.min(1, (weight - least) / (most - least || 1));
  weights.forEach((weight, i) => pixels.data.set([...VEIL, 255 * DARKEST * (1 - lifted(weight))], 4 * i));
  small.getContext("2d").putImageData(pixels, 0, 0);
  canvas.getContext("2d").drawImage(small, 0, 0, canvas.width, canvas.height);
};
