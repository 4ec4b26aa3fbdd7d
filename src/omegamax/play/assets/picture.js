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

function drawPreset(name) {
  return gridPoints([CELLS, CELLS]).map(([x, y]) => clamp(Math.round(PRESETS[name](x, y) * LEVELS), 0, LEVELS));
}

// The middle of a picture as cells of grey.
async function loadPicture(file) {
  const bitmap = await createImageBitmap(file), side = Math.min(bitmap.width, bitmap.height);
  const canvas = element("canvas", { width: CELLS, height: CELLS }), context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, CELLS, CELLS);
  context.drawImage(bitmap, (bitmap.width - side) / 2, (bitmap.height - side) / 2, side, side, 0, 0, CELLS, CELLS);
  const pixels = context.getImageData(0, 0, CELLS, CELLS).data;
  return range(CELLS * CELLS).map((i) =>
    Math.round(((0.2126 * pixels[4 * i] + 0.7152 * pixels[4 * i + 1] + 0.0722 * pixels[4 * i + 2]) / 255) * LEVELS));
}

// Brush strokes by pointer; by keys, a cursor that arrows move and that space or a digit paints with.
function makeDrawing(get, set) {
  const canvas = element("canvas", { class: "drawing", width: CELLS, height: CELLS, tabindex: 0, role: "application",
    "aria-roledescription": "drawing", "aria-label": "Image to draw on. Arrow keys move a cursor, space brightens its cell, backspace clears it." });
  const cursor = element("div", { class: "cursor", "aria-hidden": "true" });
  const holder = element("div", { class: "plane paper" }, canvas, cursor);
  const brush = { erase: false, size: 1.6 };
  let here = [Math.floor(CELLS / 2), Math.floor(CELLS / 2)], held = false;

  function dab(column, row) {
    const image = [...get()];
    for (let r = 0; r < CELLS; r++) {
      for (let c = 0; c < CELLS; c++) {
        const near = Math.exp(-((c + 0.5 - column) ** 2 + (r + 0.5 - row) ** 2) / brush.size ** 2);
        if (near < 0.1) continue;
        const i = r * CELLS + c;
        image[i] = brush.erase ? Math.min(image[i], Math.round(LEVELS * (1 - near))) : Math.max(image[i], Math.round(LEVELS * near));
      }
    }
    set(image);
  }

  const stroke = (event) => {
    const box = canvas.getBoundingClientRect();
    dab(((event.clientX - box.left) / box.width) * CELLS, ((event.clientY - box.top) / box.height) * CELLS);
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = true;
    canvas.setPointerCapture(event.pointerId);
    event.preventDefault();
    stroke(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (held) stroke(event); });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(end, () => { held = false; });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    const change = { " ": 3, Backspace: -LEVELS, Delete: -LEVELS }[event.key];
    if (!by && !change) return;
    event.preventDefault();
    if (by) here = here.map((v, a) => clamp(v + by[a], 0, CELLS - 1));
    const i = here[1] * CELLS + here[0];
    if (change) set(get().map((x, j) => (j === i ? clamp(x + change, 0, LEVELS) : x)));
    showCursor();
    announce(`column ${here[0] + 1}, row ${here[1] + 1}, ${get()[i]} of ${LEVELS}`);
  });

  function showCursor() {
    cursor.style.left = `${(100 * here[0]) / CELLS}%`;
    cursor.style.top = `${(100 * here[1]) / CELLS}%`;
  }

  function refresh() {
    const context = canvas.getContext("2d"), picture = context.createImageData(CELLS, CELLS);
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
  const seen = new Set(), joined = gridEdges(CELLS, CELLS), near = range(p.length).map(() => []);
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
