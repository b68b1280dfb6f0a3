// The documentation in the package `recua` lacks some files of the repository: the tests, the
// pictures, what is for contributors. Links to them become plain text, and parts that are marked as
// `only in the repository` are left out. Called by pack.mjs.
import { posix } from 'node:path';

const link = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/**
 * A Markdown text with links to packaged files only, and the pictures that are there.
 * @param {string} text
 * @param {string} path the text's file in the package
 * @param {(path: string) => boolean} isPackaged also for a folder
 */
export function withPackagedLinks(text, path, isPackaged) {
  return text.replace(/<!-- only in the repository -->[^]*?<!-- end -->\n\n?/g, '').replace(link, (whole, picture, words, address) => {
    const [target] = address.split('#', 1);
    if (target === '' || /^[a-z]+:/i.test(target)) return whole;
    const found = posix.join(posix.dirname(path), target).replace(/\/$/, '');
    if (isPackaged(found)) return whole;
    return picture ? '' : words;
  });
}
