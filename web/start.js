// Lets the browser paint the frame in index.html before it loads the page's modules: it would
// compile them on the thread that paints.
let isBegun = false;

function begin() {
  if (isBegun) return;
  isBegun = true;
  const modules = /** @type {HTMLTemplateElement} */ (document.getElementById('modules'));
  document.head.append(modules.content);
  void import('./main.js');
}

requestAnimationFrame(() => setTimeout(begin));
// A page that nobody sees is not painted.
if (document.hidden) begin();
