// The panels shown, side by side in one picture to keep.

async function sheet(example, indices) {
  const SIZE = 360, GAP = 20, TOP = 96, BOTTOM = 40, FONT = "system-ui, Roboto, sans-serif";
  const columns = [["picture", example.picture, example.answer == null ? "" : `answer: ${example.answer}`]];
  if (example.relevance != null) columns.push(["what matters", example.relevance, ""]);
  for (const index of indices) {
    const look = example.looks[index];
    if (!look) continue;
    const [answer, probability] = look.answers[0] ?? [DASH, null];
    const mark = look.right == null ? "" : look.right ? " \u2713" : " \u2717";
    columns.push([data.models[index].name, look.picture, `${answer} ${percent(probability)}${mark}`]);
  }
  const images = await Promise.all(columns.map(async ([, picture]) => {
    const image = new Image();
    image.src = data.pictures[picture];
    await image.decode();
    return image;
  }));
  const heights = images.map((image) => (SIZE * image.naturalHeight) / image.naturalWidth);
  const canvas = element("canvas");
  canvas.width = columns.length * (SIZE + GAP) + GAP;
  canvas.height = TOP + Math.max(...heights) + BOTTOM;
  const pen = canvas.getContext("2d");
  const write = (text, x, y, font, colour) => {
    pen.font = `${font} ${FONT}`;
    pen.fillStyle = colour;
    pen.fillText(text, x, y, text === example.question ? canvas.width - 2 * GAP : SIZE);
  };
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  write(example.question, GAP, 38, "600 24px", "#1f2933");
  images.forEach((image, i) => {
    const x = GAP + i * (SIZE + GAP);
    pen.imageSmoothingEnabled = image.naturalWidth >= 160;
    write(columns[i][0], x, TOP - 14, "600 18px", "#1f2933");
    pen.drawImage(image, x, TOP, SIZE, heights[i]);
    write(columns[i][2], x, TOP + heights[i] + 26, "18px", "#5f6b78");
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

async function saveSheet(example, indices) {
  const address = URL.createObjectURL(await sheet(example, indices));
  element("a", { href: address, download: fileName(example.id, "all") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
