// Total variation on a graph: neighbours become equal. The proximal operator by minimum cuts, exact.

// argmin_w 1/2 |w - x|^2 + strength * sum over edges |w_i - w_j|, and the blocks of equal values. A block is cut at its
// mean: if some of it wants to be above even at the price of the edges, both parts go on by themselves.
function smoothOnGraph(x, edges, strength) {
  const y = [...x], value = zeros(x.length), blocks = [], open = [range(x.length)];
  const member = new Int32Array(x.length).fill(-1), near = range(x.length).map(() => []);
  for (const [i, j] of edges) near[i].push(j), near[j].push(i);
  while (open.length) {
    const nodes = open.pop(), mean = sum(nodes.map((i) => y[i])) / nodes.length;
    const above = nodes.length > 1 ? cutAbove(nodes, y, mean, near, strength, member) : [];
    if (!above.length || above.length === nodes.length) {
      nodes.forEach((i) => { value[i] = mean; });
      blocks.push(nodes);
      continue;
    }
    const upper = new Set(above);
    const inside = new Set(nodes);
    for (const i of above) {
      for (const j of near[i]) if (inside.has(j) && !upper.has(j)) (y[i] -= strength), (y[j] += strength);
    }
    open.push(above, nodes.filter((i) => !upper.has(i)));
  }
  return { value, blocks };
}

// The nodes on the source's side of a minimum cut; none where no cut pays.
function cutAbove(nodes, y, mean, near, strength, member) {
  const n = nodes.length, source = n, sink = n + 1;
  let scale = 1e-300, wanted = 0, most = n;
  nodes.forEach((i, a) => {
    member[i] = a;
    most += near[i].length;
    scale = Math.max(scale, Math.abs(y[i] - mean));
  });
  const network = makeFlow(n + 2, most, 1e-13 * scale);
  nodes.forEach((i, a) => {
    const gain = y[i] - mean;
    if (gain > 0) network.join(source, a, gain, 0), (wanted += gain);
    else if (gain < 0) network.join(a, sink, -gain, 0);
    for (const j of near[i]) if (member[j] > a) network.join(a, member[j], strength, strength);
  });
  for (const i of nodes) member[i] = -1;
  const flow = network.push(source, sink);
  if (wanted - flow <= 1e-12 * scale * n) return [];
  const reached = network.reached(source);
  return nodes.filter((_, a) => reached[a]);
}

const variation = (p, edges) => sum(edges.map(([i, j]) => Math.abs(p[i] - p[j])));

const chain = (n) => range(n - 1).map((i) => [i, i + 1]);

function gridEdges(height, width) {
  const edges = [];
  for (let r = 0; r < height; r++) {
    for (let c = 0; c < width; c++) {
      const i = r * width + c;
      if (c + 1 < width) edges.push([i, i + 1]);
      if (r + 1 < height) edges.push([i, i + width]);
    }
  }
  return edges;
}

// Graphs of n nodes to try: the ends joined, the first with all others, all with all.
function namedGraph(name, n) {
  if (name === "star") return range(n - 1).map((i) => [0, i + 1]);
  if (name === "complete") return range(n).flatMap((i) => range(i).map((j) => [j, i]));
  return n > 2 ? [...chain(n), [0, n - 1]] : chain(n);
}
