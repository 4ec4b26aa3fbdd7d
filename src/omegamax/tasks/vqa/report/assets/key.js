// What the marks in the pictures mean: only those that occur in the ones shown, and the colours with numbers.

// Each mark [shape, text] of these looks once, in the order of their first occurrence.
function marksOf(example, looks) {
  const found = example.relevance == null ? [] : [data.key.relevant];
  for (const look of looks) {
    if (look) found.push(...(look.marks ?? data.key.marks), ...(look.fits ?? []).flatMap((fit) => fit.marks));
  }
  return [...new Map(found.map((mark) => [mark.join("\n"), mark])).values()];
}

// The key as part of the page.
function keyList(example, looks) {
  const items = marksOf(example, looks).map(([shape, text]) =>
    element("li", { "data-mark": shape }, element("img", { src: data.key.samples[shape], alt: "" }), text));
  if (!looks.some(Boolean)) return [element("ul", {}, ...items)];
  const numbers = (example.ticks ?? []).map(([place, text]) => {
    const made = element("span", {}, text);
    made.style.left = 100 * place + "%";
    return made;
  });
  if (!numbers.length) numbers.push(element("span", { class: "none" }, "0"), element("span", { class: "most" }, "most"));
  const bar = element("div", { class: "scale" },
    element("img", { src: data.key.scale, alt: "Colours from none to the most" }),
    element("div", { class: "ticks" }, ...numbers));
  return [element("ul", {}, element("li", { "data-mark": "colours" }, bar, data.key.label), ...items)];
}

// The key on a canvas, from the height `top` on and `width` wide; returns how high it is. Without `images`, it only
// measures.
function drawKey(pen, example, looks, left, top, width, images) {
  const LINE = 34, SAMPLE = [42, 24], SCALE = [220, 16], SIZE = 17;
  pen.font = `${SIZE}px system-ui, Roboto, sans-serif`;
  let x = left, y = top;
  const place = (room) => {
    if (x > left && x + room > left + width) [x, y] = [left, y + LINE];
  };
  for (const [shape, text] of marksOf(example, looks)) {
    const room = SAMPLE[0] + 10 + pen.measureText(text).width + 28;
    place(room);
    if (images) {
      pen.drawImage(images[shape], x, y, ...SAMPLE);
      pen.fillStyle = "#1f2933";
      pen.fillText(text, x + SAMPLE[0] + 10, y + 18, width - SAMPLE[0] - 10);
    }
    x += room;
  }
  if (!looks.some(Boolean)) return y + LINE - top;
  const room = SCALE[0] + 16 + pen.measureText(data.key.label).width, beside = room <= width;
  place(beside ? room : SCALE[0]);
  if (images) {
    pen.drawImage(images.scale, x, y, ...SCALE);
    pen.strokeStyle = "#7b8794";
    pen.strokeRect(x + 0.5, y + 0.5, SCALE[0] - 1, SCALE[1] - 1);
    pen.fillStyle = "#1f2933";
    pen.fillText(data.key.label, ...(beside ? [x + SCALE[0] + 16, y + 15] : [x, y + SCALE[1] + 48]), width);
    pen.textAlign = "center";
    for (const [where, text] of example.ticks ?? []) {
      pen.fillRect(x + where * SCALE[0], y + SCALE[1], 1, 5);
      pen.fillText(text, x + where * SCALE[0], y + SCALE[1] + 22);
    }
    pen.textAlign = "left";
  }
  return y + LINE + (beside ? 14 : 40) - top;
}
