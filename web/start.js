// Lets the browser paint the frame in index.html before it loads the manifest and the page's
// modules, which it would compile on the thread that paints.
try {
  document.documentElement.dataset['theme'] = localStorage['theme'];
} catch {
  // The browser forbids it.
}
let isBegun = false;

function begin() {
  if (isBegun) return;
  isBegun = true;
  const later = /** @type {HTMLTemplateElement} */ (document.getElementById('later'));
  document.head.append(later.content);
  import('./main.js').catch(() => {
    const told = document.createElement('p');
    told.className = 'error';
    told.setAttribute('role', 'alert');
    told.textContent = 'The page cannot be loaded from the server. Reload it.';
    document.querySelector('main')?.replaceChildren(told);
  });
}

requestAnimationFrame(() => setTimeout(begin));
// A page that nobody sees is not painted.
if (document.hidden) begin();
