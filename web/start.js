// Lets the browser paint the frame in index.html before it loads the manifest and the page's
// modules, which it would compile on the thread that paints.
let isBegun = false;

function begin() {
  if (isBegun) return;
  isBegun = true;
  const later = /** @type {HTMLTemplateElement} */ (document.getElementById('later'));
  document.head.append(later.content);
  void import('./main.js');
}

requestAnimationFrame(() => setTimeout(begin));
// A page that nobody sees is not painted.
if (document.hidden) begin();
