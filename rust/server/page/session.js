// What a reload keeps: the question and the options in the address, the page and the key in the tab's session storage. That ends with
// the tab, and is neither in the address nor in the browser's history.

const PAGE = "pullquote.page";
const KEY = "pullquote.key";

/** Keeps a page; of a file, or of a text that the storage has no room for, only the name. */
export function keepPage(name, text) {
  if (!write(PAGE, JSON.stringify({ name, text }))) write(PAGE, JSON.stringify({ name }));
}

export function forgetPage() {
  write(PAGE, "");
}

/** The last page: its name, and its text if that was kept. */
export function keptPage() {
  return JSON.parse(read(PAGE) || "null");
}

/** Keeps a key that the server took; "" forgets it. */
export function keepKey(key) {
  write(KEY, key);
}

export function keptKey() {
  return read(KEY);
}

// A browser may forbid the storage.

function read(item) {
  try {
    return sessionStorage.getItem(item) ?? "";
  } catch {
    return "";
  }
}

/** Whether the storage took it. */
function write(item, text) {
  try {
    sessionStorage.removeItem(item);
    if (text) sessionStorage.setItem(item, text);
    return true;
  } catch {
    return false;
  }
}
