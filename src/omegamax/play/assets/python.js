// The lines of Python that compute what a card shows.

const list = (numbers) => `[${numbers.map(plain).join(", ")}]`;
const over = (temperature) => (temperature === 1 ? "" : ` / ${plain(temperature)}`);

function callOf(map, scores, side, n) {
  const [name, rest] = map.python(side, n).split("|");
  return `omegamax.${name}(${scores}${rest ? ", " + rest : ""})`;
}

function pythonOf(state, side) {
  const { view } = state, T = over(state.temperature[view]), thing = thingOf(side.name);
  const head = "import torch, omegamax\n";
  if (view === "image") {
    const cells = cellsOf(state), hex = state.image.map((x) => x.toString(16)).join("");
    const scores = `z = torch.tensor([int(c, 16) for c in "${hex}"]) / ${LEVELS}${T}\n`;
    if (thing.fit) {
      const points = `w, x = omegamax.${state.weights[view]}(z), omegamax.basis.grid_positions((${cells}, ${cells}))\n`;
      return head + scores + points + `p = ${thing.python(side, [cells, cells])}`;
    }
    const z = thing === TVMAX ? `z.reshape(${cells}, ${cells})` : "z";
    return head + scores + `p = ${callOf(thing, z, side, state.image.length)}`;
  }
  const z = view === "simplex" ? state.s : state.z, scores = `z = torch.tensor(${list(z)})${T}\n`;
  if (view !== "line") return head + scores + `p = ${callOf(thing, "z", side, z.length)}`;
  const points = `w, x = omegamax.${state.weights[view]}(z), omegamax.basis.grid_positions(${z.length})\n`;
  return head + scores + points + `p = ${thing.python(side, [z.length])}`;
}
