// The maximum flow through a network, by Dinic's algorithm: rounds of shortest paths, in flat arrays.

// A network of `size` nodes and at most `most` arcs; a capacity of `tiny` or less counts as none.
function makeFlow(size, most, tiny) {
  const first = new Int32Array(size).fill(-1), next = new Int32Array(2 * most), to = new Int32Array(2 * most);
  const left = new Float64Array(2 * most), level = new Int32Array(size), queue = new Int32Array(size), open = new Int32Array(size);
  let arcs = 0;

  function arc(a, b, capacity) {
    to[arcs] = b, left[arcs] = capacity, next[arcs] = first[a], first[a] = arcs++;
  }

  // Arcs come in pairs, there and back: the partner of e is e ^ 1.
  function join(a, b, there, back) {
    arc(a, b, there), arc(b, a, back);
  }

  // How many arcs to the sink, for nodes no further than the source; -1 where none leads.
  function layer(source, sink) {
    level.fill(-1);
    level[sink] = 0, queue[0] = sink;
    for (let q = 0, end = 1; q < end && level[source] < 0; q++) {
      for (let e = first[queue[q]]; e >= 0; e = next[e]) {
        if (left[e ^ 1] > tiny && level[to[e]] < 0) (level[to[e]] = level[queue[q]] + 1), (queue[end++] = to[e]);
      }
    }
    return level[source] >= 0;
  }

  function push(source, sink) {
    const path = new Int32Array(size);
    let total = 0;
    while (layer(source, sink)) {
      open.set(first);
      for (let node = source, depth = 0; ; ) {
        if (node === sink) {
          let most = Infinity, cut = 0;
          for (let d = depth - 1; d >= 0; d--) if (left[path[d]] <= most) (most = left[path[d]]), (cut = d);
          for (let d = 0; d < depth; d++) (left[path[d]] -= most), (left[path[d] ^ 1] += most);
          total += most;
          depth = cut, node = to[path[cut] ^ 1]; // on from where the first arc is full
          continue;
        }
        const e = open[node];
        if (e >= 0 && left[e] > tiny && level[to[e]] === level[node] - 1) (path[depth++] = e), (node = to[e]);
        else if (e >= 0) open[node] = next[e];
        else if (node === source) break;
        else (node = to[path[--depth] ^ 1]), (open[node] = next[open[node]]);
      }
    }
    return total;
  }

  // Which nodes the source still leads to.
  function reached(source) {
    const seen = new Uint8Array(size);
    seen[source] = 1, queue[0] = source;
    for (let q = 0, end = 1; q < end; q++) {
      for (let e = first[queue[q]]; e >= 0; e = next[e]) if (left[e] > tiny && !seen[to[e]]) (seen[to[e]] = 1), (queue[end++] = to[e]);
    }
    return seen;
  }

  return { join, push, reached };
}
