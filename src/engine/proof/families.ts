// The families of kernels to prove, by native/proof's names. Pure.

/** Types of weights that ggml multiplies with, by its names. */
export const weightTypes = [
  'f32', 'f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q1_0', 'q2_0', 'q2_K', 'q3_K', 'q4_K', 'q5_K', 'q6_K', 'iq2_xxs', 'iq2_xs',
  'iq2_s', 'iq3_xxs', 'iq3_s', 'iq1_s', 'iq1_m', 'iq4_nl', 'iq4_xs', 'tq1_0', 'tq2_0', 'mxfp4', 'nvfp4',
] as const;

/** Types of keys and values to prove when no engine options name them. */
const usualCaches = [['f16', 'f16'], ['q8_0', 'q8_0'], ['bf16', 'bf16']] as const;

/** All families. */
export const allFamilies: readonly string[] = [
  'elements',
  ...weightTypes.flatMap((type) => [`products ${type}`, `experts ${type}`]),
  ...usualCaches.map((types) => `attention ${types.join(' ')}`),
];

/** A model's families: kernels of its weights (all, if they are unknown) and of its KV cache. */
export function familiesOf({
  kernels,
  cacheTypeK,
  cacheTypeV,
}: {
  kernels?: readonly string[] | undefined;
  cacheTypeK: string;
  cacheTypeV: string;
}): string[] {
  const ofWeights = kernels ?? allFamilies.filter((family) => /^(products|experts) /.test(family));
  return [
    ...new Set(['elements', ...ofWeights, `products ${cacheTypeK}`, `products ${cacheTypeV}`, `attention ${cacheTypeK} ${cacheTypeV}`]),
  ];
}

/** A family in words. */
export function familyText(family: string): string {
  const [kind, first, second, third] = family.split(' ');
  if (kind === 'products') return `products of ${first} weights`;
  if (kind === 'experts') return `products of ${first} experts`;
  if (kind === 'attention') return `attention over ${first} keys and ${second} values`;
  if (kind === 'own-products') return `Recua's products (${first}) of ${second} weights`;
  if (kind === 'own-attention') return `Recua's attention (${first}) over ${second} keys and ${third} values`;
  return kind === 'elements' ? 'norms, rotations and activations' : family;
}
