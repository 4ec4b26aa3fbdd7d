// Bars: scores that are dragged, probabilities that follow.

// Close to the palette of Okabe and Ito at first; the second half is dashed in paths as well.
const ENTRY = ["#0072b2", "#d55e00", "#009e73", "#b8579a", "#c08a00", "#3a9bd0", "#7a4a9e", "#5f6b78", "#a8324a", "#2f8f86", "#7d7a1f", "#8a5a2b"];
const entryColour = (i) => `color-mix(in srgb, ${ENTRY[i % 12]}, var(--towards) var(--share))`;

// Scores as bars from a line at 0: each is a slider of its own, for hands, keys and screen readers.
function makeScoreBars(get, set) {
  const HEIGHT = 220, TOP = 22, holder = element("div", { class: "scores" });
  const y = (value) => TOP + ((reach - value) / (2 * reach)) * (HEIGHT - 2 * TOP);
  let shape = "", groups = [], held = -1, reach = REACH;

  function build(n, width) {
    const column = width / n, thick = Math.min(30, column * 0.62), focused = groups.indexOf(document.activeElement);
    groups = range(n).map((i) => {
      const centre = (i + 0.5) * column;
      return drawn("g", { role: "slider", tabindex: 0, class: "score", "aria-label": `Score ${i + 1}`, "aria-valuemin": -reach,
        "aria-valuemax": reach, "aria-orientation": "vertical", keydown: (event) => press(event, i) },
      drawn("rect", { class: "hit", x: i * column, y: 0, width: column, height: HEIGHT }),
      drawn("rect", { class: "bar", x: centre - thick / 2, width: thick, rx: 3 }),
      line(centre - thick / 2, 0, centre + thick / 2, 0, { class: "grip" }),
      text(centre, 0, "", { class: "value", "text-anchor": "middle" }));
    });
    const svg = chart(width, HEIGHT, "", line(0, y(0), width, y(0), { class: "axis" }), ...groups);
    svg.addEventListener("pointerdown", (event) => {
      held = clamp(Math.floor((event.offsetX / svg.clientWidth) * n), 0, n - 1);
      svg.setPointerCapture(event.pointerId);
      groups[held].focus({ preventScroll: true });
      drag(event, svg);
    });
    svg.addEventListener("pointermove", (event) => { if (held >= 0) drag(event, svg); });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) svg.addEventListener(end, () => { held = -1; });
    holder.replaceChildren(svg);
    if (focused >= 0) groups[Math.min(focused, n - 1)].focus({ preventScroll: true });
  }

  function drag(event, svg) {
    event.preventDefault();
    const across = event.clientY - svg.getBoundingClientRect().top;
    put(held, reach - ((across - TOP) / (HEIGHT - 2 * TOP)) * 2 * reach);
  }

  function put(i, value) {
    const z = [...get()];
    z[i] = clamp(Math.round(value * 20) / 20, -reach, reach);
    set(z);
  }

  function press(event, i) {
    const by = { ArrowUp: 0.1, ArrowRight: 0.1, ArrowDown: -0.1, ArrowLeft: -0.1, PageUp: 1, PageDown: -1 }[event.key];
    const to = { Home: -reach, End: reach }[event.key];
    if (by === undefined && to === undefined) return;
    event.preventDefault();
    put(i, to ?? get()[i] + by);
  }

  function refresh(width) {
    const z = get(), furthest = maximum(z.map(Math.abs));
    if (held < 0) reach = furthest <= REACH ? REACH : Math.ceil(furthest); // the scale stands still under a hand
    if (shape !== `${z.length} ${width} ${reach}`) build(z.length, width), (shape = `${z.length} ${width} ${reach}`);
    z.forEach((value, i) => {
      const [, bar, grip, words] = groups[i].children, end = y(value), above = value >= 0;
      groups[i].setAttribute("aria-valuenow", plain(value));
      bar.setAttribute("y", Math.min(end, y(0)));
      bar.setAttribute("height", Math.max(Math.abs(end - y(0)), 0.01));
      bar.style.fill = entryColour(i);
      grip.setAttribute("y1", end), grip.setAttribute("y2", end);
      words.setAttribute("y", above ? end - 7 : end + 15);
      const short = width / z.length < 36;
      words.textContent = (short ? String(Number(value.toFixed(reach > 9 ? 0 : 1))) : value.toFixed(reach > 99 ? 0 : 2)).replace("-", "\u2212");
    });
  }

  return { node: holder, refresh };
}

// Probabilities: an exact zero is a ring; the number of a target is framed.
function probabilityBars(width, p, y, top, label) {
  const HEIGHT = 170, TOP = 20, BOTTOM = 22, n = p.length, column = width / n, thick = Math.min(34, column * 0.62);
  const height = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM), floor = height(0), short = column < 36;
  const words = p.map((x, i) => `${i + 1}: ${x === 0 ? "0" : x.toFixed(3)}`).join(", ");
  return chart(width, HEIGHT, `${label}: probabilities ${words}`,
    line(0, floor, width, floor, { class: "axis" }),
    p.map((x, i) => {
      const centre = (i + 0.5) * column, left = centre - thick / 2, shown = x < 0.005 && x > 0 ? "<.01" : x.toFixed(2);
      return drawn("g", {},
        x > 0
          ? drawn("rect", { class: "bar own", x: left, y: height(x), width: thick, height: Math.max(floor - height(x), 0.8), rx: 3 })
          : drawn("circle", { class: "zero", cx: centre, cy: floor - 6, r: 3.5 }),
        text(centre, x > 0 ? height(x) - 5 : floor - 15, x > 0 ? (short ? shown.replace(/^0/, "") : shown) : "0",
          { class: x > 0 ? "value" : "value none", "text-anchor": "middle" }),
        y?.[i] > 0 ? drawn("rect", { x: centre - 11, y: HEIGHT - 18, width: 22, height: 17, rx: 5, class: "target" }) : null,
        text(centre, HEIGHT - 5, String(i + 1), { class: y?.[i] > 0 ? "tick chosen" : "tick", "text-anchor": "middle" }));
    }));
}
