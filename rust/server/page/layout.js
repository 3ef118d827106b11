// A page as it is laid out: blocks of the server, the marks of Markdown hidden, and passages marked.
//
// Every character of the text becomes a text node, hidden or not, so the element's `textContent` is the text. Nothing is parsed as
// HTML: elements are made here, and links lead to http and https only.

const LINKS = /^https?:\/\//i;
const NUMBERED = /^\s*(?:>\s?)*\d+[.)]/;
const TAGS = { heading: "h3", prose: "p", item: "p", row: "p", code: "p", rule: "p" };

// What Markdown writes around text: the pattern, and which groups of it are hidden, styled, and the address of a link.
const INLINE = [
  { pattern: /(`+)(?!`)([^]*?[^`])(\1)(?!`)/g, hidden: [1, 3], styled: 2, style: "code", isRaw: true },
  { pattern: /(!\[)([^\]]*)(\]\([^)]*\))/g, hidden: [1, 3], styled: 2, style: "em" },
  { pattern: /(?<!!)(\[)([^\]]+)(\]\((\S*?)(?:\s[^)]*)?\))/g, hidden: [1, 3], styled: 2, style: "link", address: 4 },
  { pattern: /(\*\*|__)(?=\S)([^]*?\S)(\1)/g, hidden: [1, 3], styled: 2, style: "strong" },
  { pattern: /(?<![*\w\\])(\*|_)(?![*_\s])([^*_]*?[^*_\s])(\1)(?![*\w])/g, hidden: [1, 3], styled: 2, style: "em" },
  { pattern: /(~~)(?=\S)([^]*?\S)(~~)/g, hidden: [1, 3], styled: 2, style: "struck" },
  { pattern: /(\\)([!-/:-@[-`{-~])/g, hidden: [1] },
];
// What it writes at the start of lines, for each kind of block.
const LINES = {
  heading: [/^[ \t]*#{1,6}[ \t]+/gm, /[ \t]+#+[ \t]*$/gm, /^[ \t]*(?:=+|-+)[ \t]*$/gm],
  prose: [/^[ \t]*(?:>[ \t]?)+/gm],
  item: [/^[ \t]*(?:>[ \t]?)*[-*+][ \t]+(?:\[[ x]\][ \t]+)?/gm],
  row: [/^[ \t]*\|?[ \t]*:?-+[-|: \t]*$/gm, /^[ \t]*\|/gm, /\|[ \t]*$/gm],
  code: [/^[ \t]*(?:`{3,}|~{3,}).*$/gm, /^(?:---|\+\+\+|\.\.\.)[ \t]*$/gm],
  rule: [/^[ \t]*(?:>[ \t]*)+$/gm, /^[-*_ \t]{3,}$/gm],
};

// Long pages are laid out in parts, each when it comes near the screen; a browser takes a minute for a few megabytes at once.
const PART = 20_000; // characters
const layers = new WeakMap(); // what lays out a part
const near = new IntersectionObserver(
  (entries) => {
    for (const { target } of entries.filter(({ isIntersecting }) => isIntersecting)) {
      near.unobserve(target);
      layers.get(target)();
    }
  },
  { rootMargin: "100%" },
);

/** A fragment of the page, and for each passage its marks. `blocks` is empty for plain text. */
export function layOut(text, blocks, format, passages, mark) {
  near.disconnect();
  const page = document.createDocumentFragment();
  const marks = passages.map(() => []);
  const parts = partsOf(text, blocks);
  for (const part of parts) {
    const place = parts.length > 1 ? page.appendChild(holder(text, part)) : page;
    const fill = () => place.replaceChildren(laid(text, part, format, passages, mark, marks));
    if (parts.length === 1 || passages.some(({ start, end }) => start < part.end && end > part.start)) {
      fill();
    } else if (blocks.length) {
      layers.set(place, fill);
      near.observe(place);
    }
  }
  return { page, marks };
}

/** The page in parts, each from its first block to the next part. */
function partsOf(text, blocks) {
  const all = (blocks.length ? blocks : [{ kind: "text", start: 0, end: text.length }]).flatMap((block) => cut(text, block));
  const parts = [{ start: 0, end: text.length, blocks: [] }];
  for (const block of all) {
    const last = parts.at(-1);
    if (last.blocks.length && block.end - last.start > PART) {
      last.end = block.start;
      parts.push({ start: block.start, end: text.length, blocks: [block] });
    } else {
      last.blocks.push(block);
    }
  }
  return parts;
}

/** A long block in several, cut after a line, else after a word. */
function cut(text, { kind, start, end }) {
  const made = [];
  while (end - start > PART) {
    const window = text.slice(start, start + PART);
    const length = window.lastIndexOf("\n") + 1 || window.lastIndexOf(" ") + 1 || (window.isWellFormed() ? PART : PART - 1);
    made.push({ kind, start, end: (start += length) });
  }
  return [...made, { kind, start, end }];
}

/** What stands for a part: its text, and about as much room. */
function holder(text, { start, end, blocks }) {
  const element = document.createElement("div");
  element.className = "part";
  element.textContent = text.slice(start, end);
  const lines = Math.max((end - start) / 75, blocks[0]?.kind === "text" ? element.textContent.split("\n").length : blocks.length * 1.5);
  element.style.containIntrinsicBlockSize = `auto ${Math.round(lines * 1.75)}rem`;
  return element;
}

/** A part as it is laid out. */
function laid(text, part, format, passages, mark, marks) {
  const page = document.createDocumentFragment();
  let last = page; // what the text between two blocks goes to: the passage that it is in, if any
  if (part.blocks[0]?.start > part.start) page.append(unshown(text.slice(part.start, part.blocks[0].start)));
  for (const [index, block] of part.blocks.entries()) {
    const element = block.kind === "text" ? page : document.createElement(TAGS[block.kind]);
    const source = text.slice(block.start, block.end);
    const inline = format === "markdown" ? styles(source, block) : { hidden: [], styled: [] };
    for (const { start, end, rank } of pieces(block, passages)) {
      const runs = shown(text, start, end, inline);
      if (rank < 0) {
        element.append(...runs);
      } else {
        const piece = mark(rank, marks[rank].length === 0);
        piece.append(...runs);
        marks[rank].push(piece);
        element.append(piece);
        last = piece;
      }
    }
    if (element !== page) {
      element.className = `block ${block.kind}`;
      if (block.kind === "item") element.classList.add(NUMBERED.test(source) ? "numbered" : "bullet");
      if (!element.textContent.trim() || isHidden(text, block, inline)) element.classList.add("empty");
      page.append(element);
    }
    const next = part.blocks[index + 1]?.start ?? part.end;
    const goesOn = passages.some(({ start, end }) => start < block.end && end > next);
    if (next > block.end) (goesOn ? last : page).append(unshown(text.slice(block.end, next)));
  }
  return page;
}

/** A block in parts: between passages, and within them. Passages do not overlap. */
function pieces({ start, end }, passages) {
  const parts = [];
  const within = passages.map((passage, rank) => ({ ...passage, rank })).filter((each) => each.start < end && each.end > start);
  let at = start;
  for (const passage of within.sort((a, b) => a.start - b.start)) {
    const first = Math.max(passage.start, start);
    const last = Math.min(passage.end, end);
    if (first > at) parts.push({ start: at, end: first, rank: -1 });
    parts.push({ start: first, end: last, rank: passage.rank });
    at = last;
  }
  if (at < end) parts.push({ start: at, end, rank: -1 });
  return parts;
}

/** What Markdown hides of a block, and how it styles the rest: spans of the page. */
function styles(text, { kind, start }) {
  const hidden = [];
  const styled = [];
  const raw = [];
  const span = (from, to, more = {}) => ({ start: start + from, end: start + to, ...more });
  for (const pattern of LINES[kind] ?? []) for (const found of text.matchAll(pattern)) hidden.push(span(found.index, found.index + found[0].length));
  if (kind === "code") return { hidden, styled };
  for (const { pattern, hidden: marks, styled: inner, style, address, isRaw } of INLINE) {
    for (const found of text.matchAll(pattern)) {
      if (raw.some(([from, to]) => found.index < to && found.index + found[0].length > from)) continue;
      if (isRaw) raw.push([found.index, found.index + found[0].length]);
      const places = [];
      let at = found.index;
      for (const group of [1, 2, 3]) {
        places[group] = [at, at + (found[group] ?? "").length];
        at = places[group][1];
      }
      for (const group of marks) hidden.push(span(...places[group]));
      if (inner) styled.push(span(...places[inner], { style, address: found[address] }));
    }
  }
  return { hidden, styled };
}

/** Text nodes and elements for a part of the page. */
function shown(text, start, end, { hidden, styled }) {
  const cuts = new Set([start, end]);
  for (const span of [...hidden, ...styled]) for (const at of [span.start, span.end]) if (at > start && at < end) cuts.add(at);
  const places = [...cuts].sort((a, b) => a - b);
  return places.slice(1).map((last, index) => {
    const first = places[index];
    const part = text.slice(first, last);
    const covers = (span) => span.start <= first && last <= span.end;
    if (hidden.some(covers)) return unshown(part);
    const kinds = styled.filter(covers);
    if (!kinds.length) return document.createTextNode(part);
    const address = kinds.find((kind) => kind.address && LINKS.test(kind.address))?.address;
    const element = document.createElement(address ? "a" : "span");
    if (address) Object.assign(element, { href: address, target: "_blank", rel: "noopener noreferrer" });
    element.className = kinds.map((kind) => kind.style).join(" ");
    element.textContent = part;
    return element;
  });
}

function isHidden(text, block, { hidden }) {
  const left = text.slice(block.start, block.end).split("");
  for (const span of hidden) left.fill(" ", span.start - block.start, span.end - block.start);
  return !left.join("").trim();
}

function unshown(text) {
  const element = document.createElement("span");
  element.className = "unshown";
  element.textContent = text;
  return element;
}
