// Node.js as an application: npm's source files and an index of their words.
'use strict';
const fs = require('fs');
const path = require('path');
const crypto = require('crypto');
const readline = require('readline');

const limit = Number(process.argv[2]);
const roots = [
  path.join(path.dirname(path.dirname(process.execPath)), 'lib/node_modules'),
  '/usr/lib/node_modules',
  '/usr/share/nodejs',
  '/usr/local/lib/node_modules',
];
const documents = [];
const index = new Map();
let total = 0;

function* files(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* files(full);
    else if (entry.isFile() && /\.(js|json|md)$/.test(entry.name)) yield full;
  }
}

function load(file, name) {
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  const at = documents.length;
  documents.push({ name, lines, reads: 0 });
  lines.forEach((line, number) => {
    total += line.length + 1;
    for (const word of new Set(line.match(/[A-Za-z_]{4,}/g))) {
      if (!index.has(word)) index.set(word, []);
      index.get(word).push({ at, number });
    }
  });
}

const root = roots.find((folder) => fs.existsSync(folder));
if (!root) {
  console.error(`no JavaScript sources in ${roots.join(', ')}`);
  process.exit(1);
}
// When the folder holds less, its files come again under other names.
for (let turn = 0; total < limit; turn++) {
  for (const file of files(root)) {
    load(file, `${file}#${turn}`);
    if (total >= limit) break;
  }
  if (total === 0) process.exit(1);
}
const words = [...index.keys()].filter((word) => index.get(word).length >= 5).sort();

// mulberry32: a small generator with a seed.
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
}

// `count` of the items: 70 % are the same for every seed, the others vary.
function pick(items, count, seed) {
  const [core, varied] = [generator(1), generator(seed + 2)];
  return Array.from({ length: count }, (_, i) => items[(i < count * 0.7 ? core() : varied()) % items.length]);
}

function relaunch(seed, sum) {
  for (const word of pick(words, 40, seed)) {
    for (const { at, number } of index.get(word).slice(0, 200)) {
      const document = documents[at];
      document.reads += 1;
      sum.update(document.lines[number]);
    }
  }
}

function use(seed, sum) {
  const next = generator(seed);
  for (let i = 0; i < 20; i++) {
    const at = next() % documents.length;
    const { lines } = documents[at];
    for (const line of lines) sum.update(line);
    const number = next() % lines.length;
    lines[number] = `${lines[number].slice(0, 200)} edited${next() % 100}`;
    const word = words[next() % words.length];
    index.get(word).push({ at, number });
  }
}

console.log('ready');
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [kind, seed] = line.split(' ');
  const action = { relaunch, use }[kind];
  if (!action) return console.log(`error unknown request ${kind}`);
  const sum = crypto.createHash('sha256');
  action(Number(seed), sum);
  console.log(`done ${sum.digest('hex').slice(0, 16)}`);
});
