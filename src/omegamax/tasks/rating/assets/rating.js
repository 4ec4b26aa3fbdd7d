// One picture after the other: a question for what each network said, and one for each map.

function rating() {
  const { asked, pictures, shades } = data, total = listed(emptyAnswers()).length;
  let rater = "", answers = emptyAnswers(), place = 0, kept = true, saved = 0;

  at("task").textContent =
    `${pictures.length} pictures, each with ${pictures[0].looks.length} ${asked.text.toLowerCase()}s in random order. ` +
    `For each: \u201c${asked.first[0]}\u201d (1 ${asked.first[1]}, 5 ${asked.first[2]}), and for each map: ` +
    `\u201c${asked.second[0]}\u201d (1 ${asked.second[1]}, 5 ${asked.second[2]}).`;

  function begin(name, given) {
    [rater, answers] = [name, given];
    kept = keep(rater, answers);
    const open = pictures.findIndex((_, p) => !complete(p));
    at("begin").hidden = at("differ").hidden = true;
    at("rate").hidden = false;
    at("unkept").hidden = kept;
    go(open < 0 ? 0 : open);
  }

  const complete = (p) => listed(answers[p]).every((value) => value != null);

  function go(to) {
    place = to;
    const { source, question, looks } = pictures[place];
    const photograph = element("img", { src: source, alt: `Photograph ${place + 1}` });
    at("photograph").replaceChildren(photograph, ...(question ? [element("figcaption", { id: "question" }, question)] : []));
    const panels = looks.map((look, i) => panel(look, i, photograph));
    at("looks").replaceChildren(...panels);
    for (const tag of document.querySelectorAll("fieldset")) mark(tag);
    at("previous").disabled = place === 0;
    refresh();
    scrollTo(0, at("rate").offsetTop - 8);
    (document.querySelector("fieldset:not(.given) input") ?? at("next")).focus({ preventScroll: true });
  }

  function panel(look, i, photograph) {
    const letter = String.fromCharCode(65 + i), rated = new Set(look.rated);
    const words = look.words.flatMap((word, w) => [w ? " " : null, element(rated.has(w) ? "b" : "span", {}, word)]);
    const said = look.words.length ? words : [element("span", { class: "muted" }, "(nothing)")];
    const name = `${asked.text} ${letter}`;
    const figures = look.rated.map((w, k) => {
      const word = asked.text === "Answer" ? look.words.join(" ") : look.words[w];
      const frame = element("div", { class: "map", role: "img", "aria-label": `Where ${name} looked for \u201c${word}\u201d` });
      photograph.decode().then(() => frame.append(drawMap(photograph, levelsOf(look.maps[k]), look.size, shades)));
      return element("figure", {}, frame, element("figcaption", {}, word),
        question(`${name}, \u201c${word}\u201d: ${asked.second[0]}`, asked.second, `${i}-${k}`,
          () => answers[place][i].words[k], (value) => { answers[place][i].words[k] = value; }));
    });
    return element("article", { class: "panel", "data-look": i },
      element("h3", {}, name),
      element("p", { class: "said" }, ...said),
      element("p", { class: "muted asks" }, asked.first[0]),
      question(`${name}: ${asked.first[0]}`, asked.first, String(i),
        () => answers[place][i].text, (value) => { answers[place][i].text = value; }),
      figures.length ? element("p", { class: "muted asks" }, asked.second[0], element("span", { class: "ends" },
        ` 1 ${asked.second[1]}, 5 ${asked.second[2]}`)) : null,
      element("div", { class: "maps" }, ...figures));
  }

  // Five choices in a row; `read` and `write` are where the answer is kept.
  function question(text, [, low, high], name, read, write) {
    const choices = [1, 2, 3, 4, 5].map((value) => {
      const input = element("input", { type: "radio", name, value, "aria-label": `${value} of 5` });
      input.checked = read() === value;
      input.addEventListener("change", () => set(value));
      return element("label", { class: "grade", title: value === 1 ? low : value === 5 ? high : null }, input, String(value));
    });
    const tag = element("fieldset", {}, element("legend", {}, text),
      element("span", { class: "end" }, low), ...choices, element("span", { class: "end" }, high));
    const set = (value) => {
      write(value);
      choices[value - 1].querySelector("input").checked = true;
      mark(tag);
      kept = keep(rater, answers);
      at("unkept").hidden = kept;
      refresh();
    };
    tag.set = set;
    return tag;
  }

  const mark = (tag) => tag.classList.toggle("given", tag.querySelector(":checked") != null);

  function refresh() {
    const given = countGiven(answers);
    at("place").textContent = `Photograph ${place + 1} of ${pictures.length}`;
    at("progress").value = given / total;
    at("count").textContent = `${given} of ${total} answers`;
    at("missing").hidden = given === total;
    at("next").disabled = place === pictures.length - 1;
    at("end").hidden = given < total && place < pictures.length - 1;
    at("end").textContent = given === total
      ? "All is rated, thank you. Save your answers as a file, and send it."
      : `${total - given} answers are still missing.`;
    at("save").classList.toggle("main", given === total);
  }

  // A digit answers the question that has the focus, or the first without an answer, and goes on to the next.
  function digit(value) {
    const all = [...document.querySelectorAll("fieldset")];
    const open = all.filter((tag) => !tag.classList.contains("given"));
    const current = document.activeElement.closest?.("fieldset") ?? open[0];
    if (!current) return;
    current.set(value);
    const left = [...all.slice(all.indexOf(current) + 1), ...all].find((tag) => !tag.classList.contains("given"));
    const next = left ? left.querySelector("input") : at("next").disabled ? at("save") : at("next");
    next.focus({ preventScroll: true });
    (left ?? next).scrollIntoView({ block: "nearest" });
  }

  const step = (by) => pictures[place + by] && go(place + by);

  addEventListener("keydown", (event) => {
    if (at("rate").hidden || event.altKey || event.ctrlKey || event.metaKey) return;
    if (/^[1-5]$/.test(event.key)) digit(Number(event.key));
    else if (event.key === "Enter" && event.shiftKey) step(-1);
    else if (event.key === "Enter" && event.target.tagName !== "BUTTON") step(1);
    else return;
    event.preventDefault();
  });
  addEventListener("beforeunload", (event) => {
    if (!kept && countGiven(answers) > saved) event.preventDefault();  // the browser asks first
  });

  at("rater").value = lastRater();
  at("who").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = at("rater").value.trim();
    if (name) begin(name, recall(name));
  });
  // What the browser keeps under the name of the file goes together with it; where they differ, the rater decides.
  at("file").addEventListener("change", async () => {
    at("trouble").hidden = at("differ").hidden = true;
    try {
      const [name, given] = await importAnswers(at("file").files[0]), known = recall(name);
      const [merged, differing] = mergeAnswers(given, known);
      if (!differing) return begin(name, merged);
      at("differing").textContent = `${differing} of the grades in the file of ${name} are not those that this browser keeps.`;
      at("take-file").onclick = () => begin(name, merged);
      at("take-kept").onclick = () => begin(name, mergeAnswers(known, given)[0]);
      at("differ").hidden = false;
      at("take-kept").focus();
    } catch (error) {
      at("trouble").textContent = error.message;
      at("trouble").hidden = false;
    } finally {
      at("file").value = "";  // the same file can be chosen again, once it is mended
    }
  });
  at("previous").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  at("missing").addEventListener("click", () => go(pictures.findIndex((_, p) => !complete(p))));
  at("save").addEventListener("click", () => {
    exportAnswers(rater, answers);
    saved = countGiven(answers);
  });
  at("other").addEventListener("click", () => {
    at("rate").hidden = true;
    at("begin").hidden = false;
    at("rater").value = "";
    at("rater").focus();
  });
}

rating();
