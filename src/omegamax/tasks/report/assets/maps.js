// Maps of attention over a photograph: a level of the scale for each cell, level 0 being exactly none.

const levelsOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// A canvas with the photograph and a map over it; `zeros` is a colour for cells without attention, or null, and then
// the photograph shows there as it is.
function drawMap(photograph, levels, [rows, columns], shades, zeros = null) {
  const canvas = element("canvas", { width: photograph.naturalWidth, height: photograph.naturalHeight });
  const pen = canvas.getContext("2d");
  pen.drawImage(photograph, 0, 0);
  const colour = shades.map(([r, g, b, a]) => `rgba(${r}, ${g}, ${b}, ${a / 255})`);
  // Edges at full pixels, so that neighbours neither overlap nor leave a gap.
  const edge = (index, count, size) => Math.round((index * size) / count);
  for (let row = 0; row < rows; row++) {
    const top = edge(row, rows, canvas.height), bottom = edge(row + 1, rows, canvas.height);
    for (let column = 0; column < columns; column++) {
      const level = levels[row * columns + column];
      if (!level && zeros == null) continue;
      const left = edge(column, columns, canvas.width), right = edge(column + 1, columns, canvas.width);
      pen.fillStyle = level ? colour[level] : zeros;
      pen.fillRect(left, top, right - left, bottom - top);
    }
  }
  return canvas;
}
