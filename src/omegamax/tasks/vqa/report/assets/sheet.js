// Pictures to keep: panels side by side, with the question, the answers and the key.

async function loaded(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  return image;
}

// Panels of what is asked about, then of the models at these indices.
function columnsOf(example, indices) {
  const columns = [["picture", example.picture, example.answer == null ? "" : `answer: ${example.answer}`]];
  if (example.relevance != null) columns.push(["what matters", example.relevance, ""]);
  for (const index of indices) if (example.looks[index]) columns.push(lookColumn(example, index));
  return columns;
}

function lookColumn(example, index) {
  const look = example.looks[index], [answer, probability] = look.answers[0] ?? [DASH, null];
  const mark = look.right == null ? "" : look.right ? " \u2713" : " \u2717";
  return [data.models[index].name, look.picture, `${answer} ${percent(probability)}${mark}`];
}

async function sheet(example, columns, looks, asked) {
  const SIZE = 360, GAP = 20, TOP = 96, BOTTOM = 52, FONT = "system-ui, Roboto, sans-serif";
  const images = await Promise.all(columns.map(([, picture]) => loaded(data.pictures[picture])));
  const names = Object.keys(data.key.samples);
  const samples = await Promise.all(names.map((name) => loaded(data.key.samples[name])));
  const drawn = { ...Object.fromEntries(names.map((name, i) => [name, samples[i]])), scale: await loaded(data.key.scale) };
  const heights = images.map((image) => (SIZE * image.naturalHeight) / image.naturalWidth);
  const canvas = element("canvas"), pen = canvas.getContext("2d");
  canvas.width = columns.length * (SIZE + GAP) + GAP;
  const under = TOP + Math.max(...heights) + BOTTOM, inner = canvas.width - 2 * GAP;
  canvas.height = under + drawKey(pen, asked, looks, GAP, under, inner) + GAP;
  const write = (text, x, y, font, colour, room = SIZE) => {
    pen.font = `${font} ${FONT}`;
    pen.fillStyle = colour;
    pen.fillText(text, x, y, room);
  };
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  write(example.question, GAP, 38, "600 24px", "#1f2933", inner);
  images.forEach((image, i) => {
    const x = GAP + i * (SIZE + GAP);
    pen.imageSmoothingEnabled = image.naturalWidth >= 160;
    write(columns[i][0], x, TOP - 14, "600 18px", "#1f2933");
    pen.drawImage(image, x, TOP, SIZE, heights[i]);
    write(columns[i][2], x, TOP + heights[i] + 26, "18px", "#5f6b78");
  });
  pen.imageSmoothingEnabled = true;
  drawKey(pen, asked, looks, GAP, under, inner, drawn);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

async function save(blob, file) {
  const address = URL.createObjectURL(await blob);
  element("a", { href: address, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function saveSheet(example, indices) {
  const looks = indices.map((index) => example.looks[index]);
  return save(sheet(example, columnsOf(example, indices), looks, example), fileName(example.id, "all"));
}

// One look with its key, which has no need to explain what matters.
function saveLook(example, index) {
  const file = fileName(example.id, data.models[index].name, "key");
  const asked = { ...example, relevance: null };
  return save(sheet(example, [lookColumn(example, index)], [example.looks[index]], asked), file);
}

// A mixture with 1, 2, ... components, the number that was selected marked.
function saveFits(example, index) {
  const look = example.looks[index], name = data.models[index].name;
  const columns = look.fits.map((fit) => {
    const sign = fit.right == null ? "" : fit.right ? " \u2713" : " \u2717";
    return [`K = ${fit.components}${fit.components === look.components ? " = K*" : ""}`, fit.picture, fit.answer + sign];
  });
  const asked = { ...example, relevance: null };
  return save(sheet(example, columns, [look], asked), fileName(example.id, name, "components"));
}
