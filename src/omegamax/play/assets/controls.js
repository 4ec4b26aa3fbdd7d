// Sliders, choices and switches for the parameters of a map or a density.

// A number by a slider; with `log` its steps are factors.
function makeSlider(id, { label, low, high, step, log }, value, change) {
  const to = log ? (v) => Math.log10(v) : (v) => v, from = log ? (x) => Number((10 ** x).toPrecision(2)) : Number;
  const input = element("input", { id, type: "range", min: to(low), max: to(high), step: log ? 0.01 : step, value: to(value) });
  const shown = element("output", { for: id });
  const tell = (v) => {
    shown.textContent = digits(v, Number.isInteger(v) ? 0 : step < 0.01 ? 3 : 2);
    input.setAttribute("aria-valuetext", shown.textContent);
    input.style.setProperty("--part", `${(100 * (to(v) - to(low))) / (to(high) - to(low) || 1)}%`);
  };
  input.addEventListener("input", () => {
    const v = from(Number(input.value));
    tell(v);
    change(v);
  });
  tell(value);
  return element("div", { class: "control" }, element("label", { for: id }, label), input, shown);
}

function makeChoice(id, label, choices, value, change) {
  const select = element("select", { id, change: () => change(select.value) },
    choices.map((choice) => element("option", { value: choice, selected: choice === value }, choice)));
  return element("div", { class: "control choice" }, element("label", { for: id }, label), select);
}

function makeSwitch(id, label, value, change) {
  const input = element("input", { id, type: "checkbox", checked: value, change: () => change(input.checked) });
  return element("div", { class: "control switch" }, input, element("label", { for: id }, label));
}

function makeParameter(id, parameter, value, n, change) {
  if (parameter.choices) return makeChoice(id, parameter.label, parameter.choices, value, change);
  if (parameter.flag) return makeSwitch(id, parameter.label, value, change);
  const bounds = { ...parameter, low: limit(parameter.low, n), high: limit(parameter.high, n) };
  return makeSlider(id, bounds, value, change);
}

// Scores as text, for those who would rather type: taken over when they make sense, otherwise it is said what is wanted.
function makeNumbers(id, least, most, get, set) {
  const wanted = `${least === most ? least : `${least} to ${most}`} numbers from \u2212${LARGEST} to ${LARGEST}, with commas`;
  const trouble = element("p", { id: `${id}-trouble`, class: "hint wrong", role: "status" });
  const input = element("input", { id, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": trouble.id, change: () => {
    const words = input.value.replaceAll("\u2212", "-").split(/[\s,;[\]()]+/).filter((word) => word), numbers = words.map(Number);
    const right = numbers.length >= least && numbers.length <= most && numbers.every((x) => Math.abs(x) <= LARGEST);
    trouble.textContent = right ? "" : `Wanted: ${wanted}.`;
    input.setAttribute("aria-invalid", String(!right));
    if (right) set(numbers.map((x) => Number(plain(x))));
  } });
  return {
    node: element("div", { class: "typed" }, element("label", { for: id }, "as text"), input, trouble),
    refresh() {
      const shown = get().map(plain).join(", ");
      if (document.activeElement === input || input.dataset.shown === shown) return;
      input.value = input.dataset.shown = shown;
      trouble.textContent = "";
      input.setAttribute("aria-invalid", "false");
    },
  };
}
