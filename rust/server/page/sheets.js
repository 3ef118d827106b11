// A PDF as it is shown: images of the pages on which passages stand, with the passages marked.
//
// The server renders a page when it is first needed (`POST /render`), and its image stays until another file is opened. The
// rectangles of passages are in points from the lower left corner of an unturned page; the image may be turned, and cropped.

const WIDTH = 1200; // pixels of an image

export class Sheets {
  #images = new Map(); // by page number: a promise of the address, the area and the rotation of its image
  #post; // sends a form, and returns the response

  constructor(post) {
    this.#post = post;
  }

  /** A fragment of the pages, and for each passage its marks; without passages the first page. */
  layOut(passages, mark) {
    const sheets = document.createDocumentFragment();
    const numbers = [...new Set(passages.flatMap(({ rectangles }) => rectangles.map(({ page }) => page)))].sort((a, b) => a - b);
    const figures = new Map((numbers.length ? numbers : [1]).map((number) => [number, this.#figure(number)]));
    const marks = passages.map(({ rectangles, text }, rank) =>
      rectangles.map((rectangle, index) => {
        const piece = mark(rank, index === 0);
        const { sheet, image } = figures.get(rectangle.page);
        const label = index === 0 && element("span", "rank", rank + 1);
        if (label) {
          label.ariaHidden = "true";
          piece.append(element("span", "unseen", text));
        }
        image.then((shown) => {
          place(piece, rectangle, shown, ["left", "top", "width", "height"]);
          // On a page that lies on its side, a line is as high as the page.
          if (label && shown.rotation % 180 === 0) place(label, rectangle, shown, ["top", "height"]);
          else if (label) label.remove();
        }).catch(() => {});
        sheet.append(piece, ...(label ? [label] : []));
        return piece;
      }),
    );
    sheets.append(...[...figures.values()].map(({ figure }) => figure));
    return { page: sheets, marks };
  }

  /** Forgets all images. */
  close() {
    for (const image of this.#images.values()) image.then(({ address }) => URL.revokeObjectURL(address)).catch(() => {});
    this.#images.clear();
  }

  #figure(number) {
    const figure = element("figure");
    const sheet = element("div", "sheet");
    const shown = element("img");
    shown.alt = `Page ${number}`;
    sheet.append(shown);
    figure.append(element("figcaption", "", `Page ${number}`), sheet);
    const image = this.#image(number);
    image.then(
      ({ address }) => (shown.src = address),
      () => sheet.replaceChildren(element("p", "detail", "This page cannot be shown.")),
    );
    return { figure, sheet, image };
  }

  #image(number) {
    if (!this.#images.has(number)) this.#images.set(number, this.#render(number));
    return this.#images.get(number);
  }

  async #render(number) {
    const response = await this.#post("render", { page: number, width: WIDTH });
    if (!response.ok) throw new Error(`page ${number}: ${response.status}`);
    const area = response.headers.get("x-page-area").split(",").map(Number);
    const rotation = Number(response.headers.get("x-page-rotation"));
    return { address: URL.createObjectURL(await response.blob()), area, rotation };
  }
}

/** Puts these sides of an element where a rectangle of the page has them. */
function place(placed, { left, bottom, right, top }, { area, rotation }, sides) {
  const [west, south, east, north] = area;
  const [width, height] = [(right - left) / (east - west), (top - bottom) / (north - south)];
  const [x, y] = [(left - west) / (east - west), (north - top) / (north - south)];
  const turned = {
    0: { left: x, top: y, width, height },
    90: { left: 1 - y - height, top: x, width: height, height: width },
    180: { left: 1 - x - width, top: 1 - y - height, width, height },
    270: { left: y, top: 1 - x - width, width: height, height: width },
  }[rotation];
  for (const side of sides) placed.style[side] = `${100 * turned[side]}%`;
}

function element(tag, kind = "", text = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}
