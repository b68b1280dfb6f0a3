// Checks whether the CPU library computes correctly on this processor, with every family of
// kernels. Ignores remembered results.
import { RecuaError } from '../../errors.js';
import { builtWithout } from '../../engine/proof/built-without.js';
import { allFamilies } from '../../engine/proof/families.js';
import { isProofOff, proveNow, refusedTexts, unusable } from '../../engine/proof/prove.js';
import { remembered } from '../../engine/proof/remembered.js';

export interface ProcessorFacts {
  /** Path of the CPU library in use; '' if none could be checked. */
  library: string;
  families: number;
  ms: number;
  /** Libraries and kernels that failed the check and are not used. */
  refused: { name: string; reason: string }[];
  /** RECUA_CPU_CHECK=off. */
  off: boolean;
  /** The problems, in sentences. */
  texts: string[];
  /** Why no library is left to compute with; '' if one is. */
  broken: string;
}

export async function proveProcessor(): Promise<ProcessorFacts | undefined> {
  if (remembered() === undefined) return undefined;
  const nothing = { library: '', families: 0, ms: 0, refused: [], off: isProofOff(), texts: [], broken: '' };
  if (nothing.off) return nothing;
  const startMs = performance.now();
  const texts: string[] = [];
  try {
    const { refused, chosen, broken } = await proveNow(allFamilies, {
      anew: true, confined: 'if it can be',
      log: (level, text) => {
        if (level === 'warn') texts.push(text);
      },
    });
    const library = broken ? '' : chosen?.library ?? '';
    return {
      library, families: library === '' ? 0 : allFamilies.length, ms: Math.round(performance.now() - startMs), off: false,
      refused: Object.entries(refused).map(([name, reason]) => ({ name, reason })),
      texts: [...texts, ...refusedTexts(refused), ...builtWithout()].map((text) => `${text[0]!.toUpperCase()}${text.slice(1)}`), broken: broken ? unusable(broken) : '',
    };
  } catch (thrown) {
    return { ...nothing, broken: RecuaError.from(thrown).message };
  }
}
