"""Words that a page cuts: broken over two lines, or hidden beyond the edge of what holds them."""

from __future__ import annotations

from typing import Any

LONGEST = 24
"""Characters from which on a word may be broken: identifiers can be wider than a telephone."""

FIND = """([places, longest]) => {
  const clips = style => [style.overflowX, style.overflowY].some(each => each === "hidden" || each === "clip");
  const edges = (element, place) => {  // of the place, and of what within it hides the rest of its text
    const found = [];
    for (let each = element; each !== place; each = each.parentElement) {
      if (clips(getComputedStyle(each))) { found.push(each.getBoundingClientRect()); }
    }
    return [...found, place.getBoundingClientRect()];
  };
  const cut = (word, within) => {
    const lines = [...word.getClientRects()].filter(line => line.width > 0);
    // A word of which nothing shows is hidden and not cut: of what is too long for a wall, whole lines are.
    const beyond = line => within.some(edge => (line.right > edge.right + 1.5 && line.left < edge.right)
      || (line.left < edge.left - 1.5 && line.right > edge.left)
      || (line.bottom > edge.bottom + line.height / 3 && line.top < edge.bottom - 2));
    return new Set(lines.map(line => Math.round(line.top))).size > 1 || lines.some(beyond);
  };
  const shown = element => element.checkVisibility({visibilityProperty: true});  // not in what is folded away
  const wrong = [];
  for (const place of document.querySelectorAll(places)) {
    if (!shown(place)) { continue; }
    const walk = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
      if (!shown(text.parentElement)) { continue; }
      const within = edges(text.parentElement, place);
      for (const match of text.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
        if (match[0].length > longest) { continue; }
        const word = document.createRange();
        word.setStart(text, match.index);
        word.setEnd(text, match.index + match[0].length);
        if (cut(word, within)) { wrong.push([match[0], place.innerText.trim().slice(0, 80)]); }
      }
    }
  }
  return wrong;
}"""


def cut_words(body: Any, places: str) -> list[str]:
    """What is wrong with the words in places of a page, which a selector names: cells, titles, buttons."""
    found = body.evaluate(f"(_, asked) => ({FIND})(asked)", [places, LONGEST])
    return sorted({f"expected whole words, got `{word}` cut in `{text}`" for word, text in found})
