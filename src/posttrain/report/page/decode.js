// SPDX-License-Identifier: Apache-2.0
// The data of the page: base64 of compressed JSON, in elements that no browser runs. A group is opened only when asked for.

async function inflatedText(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  // Written by hand: piping a blob through takes several times as long.
  const inflater = new DecompressionStream("deflate");
  const writer = inflater.writable.getWriter();
  writer.write(bytes);
  writer.close();
  return new Response(inflater.readable).text();
}

const inflate = async (base64) => JSON.parse(await inflatedText(base64));

const stored = (id) => document.getElementById(id).textContent;

const readIndex = () => inflate(stored("index"));

// Blocks of the groups that were looked at last; a search passes through all of them and keeps none.
function blockReader(places) {
  const shards = new Map();
  const kept = new Map();
  const slice = ([shard, offset, length]) => {
    if (!shards.has(shard)) shards.set(shard, stored(`shard-${shard}`));
    return shards.get(shard).slice(offset, offset + length);
  };
  return {
    text: (index) => inflatedText(slice(places[index])),
    async open(index) {
      if (!kept.has(index)) kept.set(index, inflate(slice(places[index])));
      if (kept.size > 32) kept.delete(kept.keys().next().value);
      return kept.get(index);
    },
  };
}
