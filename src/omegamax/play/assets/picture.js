// An image to draw on, and what a map or a density makes of it.

const PRESETS = {
  "two lights": (x, y) => Math.exp(-((x - 0.3) ** 2 + (y - 0.35) ** 2) / 0.02) + 0.8 * Math.exp(-((x - 0.72) ** 2 + (y - 0.68) ** 2) / 0.03),
  ring: (x, y) => Math.exp(-((Math.hypot(x - 0.5, y - 0.5) - 0.3) ** 2) / 0.006),
  bars: (x, y) => (Math.abs(x - 0.3) < 0.1 && y > 0.15 && y < 0.85 ? 1 : 0) + (Math.abs(y - 0.7) < 0.08 && x > 0.45 && x < 0.9 ? 0.8 : 0),
  speckle: (x, y) => {
    const noise = Math.abs(Math.sin(127.1 * Math.round(x * 40) + 311.7 * Math.round(y * 40)) * 43758.5453) % 1;
    return 0.55 * noise + 0.6 * Math.exp(-((x - 0.55) ** 2 + (y - 0.45) ** 2) / 0.06);
  },
  empty: () => 0,
};

function drawPreset(name, cells) {
  return gridPoints([cells, cells]).map(([x, y]) => clamp(Math.round(PRESETS[name](x, y) * LEVELS), 0, LEVELS));
}

// The middle of a picture as cells of grey.
async function loadPicture(file, cells) {
  const bitmap = await createImageBitmap(file), side = Math.min(bitmap.width, bitmap.height);
  const canvas = element("canvas", { width: cells, height: cells }), context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, cells, cells);
  context.drawImage(bitmap, (bitmap.width - side) / 2, (bitmap.height - side) / 2, side, side, 0, 0, cells, cells);
  const pixels = context.getImageData(0, 0, cells, cells).data;
  return range(cells * cells).map((i) =>
    Math.round(((0.2126 * pixels[4 * i] + 0.7152 * pixels[4 * i + 1] + 0.0722 * pixels[4 * i + 2]) / 255) * LEVELS));
}

// The same image with cells of another size: each takes the level at its centre.
function resample(image, cells) {
  const before = Math.sqrt(image.length), at = (i) => Math.floor(((i + 0.5) * before) / cells);
  return range(cells * cells).map((i) => image[at(Math.floor(i / cells)) * before + at(i % cells)]);
}

// Brush strokes by pointer; by keys, a cursor that arrows move and that space or a digit paints with.
function makeDrawing(get, set) {
  const canvas = element("canvas", { class: "drawing", tabindex: 0, role: "application", "aria-roledescription": "drawing",
    "aria-label": "Image to draw on. Arrow keys move a cursor, space brightens its cell, digits set it from 0 to 9, backspace clears it." });
  const cursor = element("div", { class: "cursor", "aria-hidden": "true" });
  const holder = element("div", { class: "plane paper" }, canvas, cursor);
  const brush = { erase: false, size: 0.08 }; // of the side of the image
  const size = () => Math.sqrt(get().length);
  let here = [0.5, 0.5], last = null; // the cursor, and the end of the stroke, as fractions of the image

  function dab([x, y], image, cells) {
    const radius = Math.max(brush.size * cells, 0.8), reach = 1.6 * radius, column = x * cells, row = y * cells;
    const from = (v) => Math.max(Math.floor(v - reach), 0), to = (v) => Math.min(Math.ceil(v + reach), cells);
    for (let r = from(row); r < to(row); r++) {
      for (let c = from(column); c < to(column); c++) {
        const near = Math.exp(-((c + 0.5 - column) ** 2 + (r + 0.5 - row) ** 2) / radius ** 2), i = r * cells + c;
        if (near < 0.1) continue;
        image[i] = brush.erase ? Math.min(image[i], Math.round(LEVELS * (1 - near))) : Math.max(image[i], Math.round(LEVELS * near));
      }
    }
  }

  // A quick hand is seen at few places: dabs in between leave no gaps.
  function stroke(event) {
    const box = canvas.getBoundingClientRect(), cells = size(), image = [...get()];
    const now = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height], before = last ?? now;
    const count = Math.ceil(Math.hypot(now[0] - before[0], now[1] - before[1]) / (0.5 * brush.size)) || 1;
    for (let i = 1; i <= count; i++) dab(now.map((v, a) => before[a] + ((v - before[a]) * i) / count), image, cells);
    last = now;
    set(image);
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    event.preventDefault();
    last = null;
    stroke(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (last) stroke(event); });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(end, () => { last = null; });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key], cells = size();
    const change = { " ": (x) => x + 3, Backspace: () => 0, Delete: () => 0 }[event.key]
      ?? (/^[0-9]$/.test(event.key) ? () => Math.round((Number(event.key) / 9) * LEVELS) : null);
    if ((!by && !change) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const cell = here.map((v, a) => clamp(Math.floor(v * cells) + (by?.[a] ?? 0), 0, cells - 1)), i = cell[1] * cells + cell[0];
    here = cell.map((v) => (v + 0.5) / cells);
    if (change) set(get().map((x, j) => (j === i ? clamp(change(x), 0, LEVELS) : x)));
    showCursor();
    announce(`column ${cell[0] + 1}, row ${cell[1] + 1}, ${get()[i]} of ${LEVELS}`, "cursor");
  });

  function showCursor() {
    const cells = size();
    ["left", "top"].forEach((edge, a) => { cursor.style[edge] = `${(100 * Math.floor(here[a] * cells)) / cells}%`; });
    cursor.style.width = cursor.style.height = `${100 / cells}%`;
  }

  function refresh() {
    const cells = size(), context = canvas.getContext("2d"), picture = context.createImageData(cells, cells);
    if (canvas.width !== cells) canvas.width = canvas.height = cells;
    get().forEach((level, i) => {
      const grey = 22 + Math.round((level / LEVELS) * 226);
      picture.data.set([grey, grey, grey, 255], 4 * i);
    });
    context.putImageData(picture, 0, 0);
    showCursor();
  }

  return { node: holder, brush, refresh };
}

// Weights of cells in one hue: an exact zero is blank, and `least` of 255 is the shade of the least weight above it.
function paintCells(canvas, values, count, colour, least = 26) {
  const top = maximum(values), context = canvas.getContext("2d"), [r, g, b] = colour;
  canvas.width = canvas.height = count;
  const picture = context.createImageData(count, count);
  values.forEach((p, i) => picture.data.set([r, g, b, p > 0 ? Math.round(least + (255 - least) * Math.sqrt(p / top)) : 0], 4 * i));
  context.putImageData(picture, 0, 0);
}

// Outlines of the components: the edge of the support, or two deviations where there is none.
function ellipses(width, density) {
  return (density.parts ?? [{ density }]).map(({ density: part }) => {
    const [a, b, c] = part.covariance, middle = (a + c) / 2, radius = Math.hypot((a - c) / 2, b);
    const reach = Number.isFinite(part.radius) ? part.radius : 2, angle = (0.5 * Math.atan2(2 * b, a - c) * 180) / Math.PI;
    const [x, y] = part.mean.map((m) => m * width);
    return drawn("ellipse", { cx: x, cy: y, rx: reach * Math.sqrt(middle + radius) * width, ry: reach * Math.sqrt(Math.max(middle - radius, 0)) * width,
      transform: `rotate(${angle.toFixed(2)} ${x.toFixed(2)} ${y.toFixed(2)})`, class: Number.isFinite(part.radius) ? "outline" : "outline soft" });
  });
}

// Sets of cells with weight that hang together.
function countPatches(p) {
  const seen = new Set(), cells = Math.sqrt(p.length), joined = gridEdges(cells, cells), near = range(p.length).map(() => []);
  for (const [i, j] of joined) if (p[i] > 0 && p[j] > 0) near[i].push(j), near[j].push(i);
  let patches = 0;
  p.forEach((x, i) => {
    if (x <= 0 || seen.has(i)) return;
    patches += 1;
    for (const open = [i]; open.length; ) {
      const j = open.pop();
      if (seen.has(j)) continue;
      seen.add(j);
      open.push(...near[j]);
    }
  });
  return patches;
}
