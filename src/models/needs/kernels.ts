// Which families of CPU kernels a model's weights need, by engine/proof's names.
import type { ModelFile } from '../gguf/model-file.js';

/** Integers, F64 and types that only activations have are never multiplied with. */
const notMultiplied = /^(I\d+|F64|Q8_1|Q8_K)$/;
const ofExperts = /_exps\.|_chexps\./;

export function kernelsOf({ parts }: Pick<ModelFile, 'parts'>): string[] {
  const families = new Set<string>();
  for (const { tensors } of parts) {
    for (const { name, type } of tensors) {
      if (!notMultiplied.test(type)) families.add(`${ofExperts.test(name) ? 'experts' : 'products'} ${ggmlName(type)}`);
    }
  }
  return [...families].sort();
}

/** Q4_K is q4_K there, IQ2_XXS is iq2_xxs. */
function ggmlName(type: string): string {
  return type.toLowerCase().replace(/_k$/, '_K');
}
