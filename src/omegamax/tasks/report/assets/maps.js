// Maps of attention over a photograph: a level of the scale for each cell, level 0 being exactly none.

const levelsOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// A canvas with the photograph and a map over it; `zeros` is a colour for cells without attention, or null, and then
// the photograph shows there as it is; `pale`, how far the photograph is made grey and white, so that maps stand out.
function drawMap(photograph, levels, [rows, columns], shades, { zeros = null, pale = 0 } = {}) {
  const canvas = element("canvas", { width: photograph.naturalWidth, height: photograph.naturalHeight });
  const pen = canvas.getContext("2d");
  pen.filter = `grayscale(${pale ? 0.8 : 0})`;
  pen.drawImage(photograph, 0, 0);
  pen.filter = "none";
  pen.fillStyle = `rgba(255, 255, 255, ${pale})`;
  pen.fillRect(0, 0, canvas.width, canvas.height);
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
