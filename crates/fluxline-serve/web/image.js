// An image of numbers in the colours of viridis, which keep their order in grey and for colour-blind eyes.
import { at, put } from "./dom.js";
import { plain } from "./numbers.js";

const anchors = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];

const colours = Array.from({ length: 256 }, (_, level) => {
  const place = level / 255 * (anchors.length - 1);
  const low = Math.min(Math.floor(place), anchors.length - 2);
  return anchors[low].map((value, part) => Math.round(value + (place - low) * (anchors[low + 1][part] - value)));
});

/** Draws {columns, cells, least, greatest}: two hexadecimal digits a cell, 00 for no value. */
export function drawImage(canvas, image, words) {
  const { columns, cells } = image;
  const lines = columns ? cells.length / 2 / columns : 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, lines);
  put(at(words), lines ? `${columns} × ${lines} cells, from ${plain(image.least)} to ${plain(image.greatest)}` : "nothing yet");
  if (!lines) return;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, lines);
  for (let cell = 0; cell < columns * lines; cell++) {
    const level = parseInt(cells.slice(2 * cell, 2 * cell + 2), 16);
    pixels.data.set(level ? [...colours[level], 255] : [0, 0, 0, 0], 4 * cell);
  }
  context.putImageData(pixels, 0, 0);
}
