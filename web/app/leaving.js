// Whether the page is being left or loaded again. Browsers break its requests off then, as if the
// server could not be reached.

/** A page that is still here this long after it was to be left stays: the user chose so. */
const leavingMs = 3_000;

let leftMs = -Infinity;
for (const event of ['beforeunload', 'pagehide']) addEventListener(event, () => { leftMs = performance.now(); });

/** Resolves when the page is not being left; never if it is gone before. @returns {Promise<void>} */
export async function staying() {
  for (;;) {
    const ms = leftMs + leavingMs - performance.now();
    if (ms <= 0) return;
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
}
