// The last step of set-up: proves that the local build's CPU library computes correctly with every
// family of kernels (src/engine/proof). If it does not, rebuilds it without the newest instructions
// that it uses, until it does.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative } from './native.mjs';
import { place } from './place.mjs';
import { Failure } from './process.mjs';
import { nextWithout, readChoice, writeChoice } from './processor.mjs';
import { say } from './progress.mjs';

const compiled = ['families.js', 'prove.js'].map((name) => join(place.dist, 'engine', 'proof', name));

/** Of the build, even if the user has named another addon. */
async function ofBuild(work) {
  const [{ allFamilies }, proof] = await Promise.all(compiled.map((path) => import(pathToFileURL(path).href)));
  const named = process.env.RECUA_ADDON;
  delete process.env.RECUA_ADDON;
  try {
    return await work(allFamilies, proof);
  } finally {
    if (named !== undefined) process.env.RECUA_ADDON = named;
  }
}

export async function processorPending() {
  if (![place.addon, ...compiled].every((path) => existsSync(path))) return true;
  return await ofBuild((families, { isProvedBeside }) => !isProvedBeside(families));
}

/** Result of trying the library; `texts` are for the user. */
async function prove() {
  return await ofBuild(async (families, { proveNow, refusedTexts }) => {
    const texts = [];
    const outcome = await proveNow(families, {
      anew: true, beside: true, confined: 'if it can be',
      log: (level, text) => {
        if (level === 'warn') texts.push(text);
      },
    });
    return { ...outcome, texts: [...texts, ...refusedTexts(outcome.refused)] };
  });
}

const here = { prove, rebuild: buildNative, read: readChoice, write: writeChoice, say, next: nextWithout };

/** Tests pass parts of their own. @throws Failure if there is nothing left to leave out */
export async function proveProcessor(report = () => {}, { prove, rebuild, read, write, say, next } = here) {
  for (;;) {
    const { broken, chosen, texts } = await prove();
    for (const text of texts) say(`      ${text}`);
    if (!broken) break;
    const without = read();
    const level = next(chosen?.features, without.map(({ name }) => name));
    if (!level) {
      throw new Failure(`The CPU library computes wrongly on this processor, even with the fewest instructions: ${broken.reason}. `
        + 'Try another compiler (CC, CXX). RECUA_CPU_CHECK=off uses it all the same.');
    }
    say(`      ${broken.reason}`);
    say(`      The library uses ${level.text}; rebuilding without it.`);
    write([...without, { name: level.name, reason: broken.reason }]);
    await rebuild(report);
  }
  const left = read().map(({ name }) => name);
  return left.length === 0 ? '' : `without ${left.join(', ')}`;
}
