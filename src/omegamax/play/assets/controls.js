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
