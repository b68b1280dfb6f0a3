import t from 'tap';
import { chooseModel, groupModels } from '#recua/models/hub/gguf-files.js';
import { quantizationOfName } from '#recua/models/names/model-names.js';
import type { HubFile } from '#recua/models/hub/hub.js';

function files(...paths: (string | [string, number])[]): HubFile[] {
  return paths.map((one) => {
    const [path, sizeBytes] = typeof one === 'string' ? [one, 100] as const : one;
    return { path, sizeBytes, etag: 'e'.repeat(64), hash: 'sha256' };
  });
}

t.test('models whose names say that statistics were used are models', (t) => {
  const kinds = (...names: string[]) => groupModels(files(...names)).map(({ name, kind, quantization }) => [name, kind, quantization]);
  t.strictSame(kinds('K-7B-Q4_K_M-imatrix.gguf', 'K-7B-imatrix.gguf'), [['K-7B-Q4_K_M-imatrix', 'model', 'Q4_K_M'], ['K-7B-imatrix', 'imatrix', '']]);
  t.strictSame(kinds('DS-IQ2XXS-chat-imatrix.gguf', 'mmproj-F16.gguf'), [['DS-IQ2XXS-chat-imatrix', 'model', ''], ['mmproj-F16', 'projector', 'F16']]);
  t.end();
});

t.test('the quantization is read from the name', (t) => {
  for (const [path, expected] of [
    ['Qwen3-8B-Q4_K_M.gguf', 'Q4_K_M'], ['model.Q8_0.gguf', 'Q8_0'], ['llama-3.2-1b-instruct-iq3_xxs.gguf', 'IQ3_XXS'], ['Kimi-UD-Q4_K_XL-00001-of-00013.gguf', 'UD-Q4_K_XL'],
    ['gemma-3-4b-it-f16.gguf', 'F16'], ['gemma-BF16.gguf', 'BF16'], ['gpt-oss-20b-mxfp4.gguf', 'MXFP4'], ['gpt-oss-120b-MXFP4_MOE.gguf', 'MXFP4_MOE'], ['m-TQ1_0.gguf', 'TQ1_0'],
    ['m-IQ4_NL.gguf', 'IQ4_NL'], ['m-Q4_0_4_8.gguf', 'Q4_0_4_8'], ['m-IQ4_KS_R4.gguf', 'IQ4_KS_R4'], ['m-Q6_K.gguf', 'Q6_K'], ['m-Q3_K_XXL.gguf', 'Q3_K_XXL'], ['m-fp32.gguf', 'F32'],
    ['m-F16-Q8_0.gguf', 'Q8_0'], ['Q5_K_S/model-00001-of-00002.gguf', 'Q5_K_S'], ['model.gguf', ''], ['Q4_KMax.gguf', ''], ['SQ4_0.gguf', ''], ['phi-2.Q4_K_M.gguf', 'Q4_K_M'],
    ['ggml-model-q4_1.gguf', 'Q4_1'], ['m-NVFP4.gguf', 'NVFP4'], ['m-UD-IQ2_M.gguf', 'UD-IQ2_M'],
  ] as const) t.equal(quantizationOfName(path), expected, path);
  t.end();
});

t.test('the parts of a split file are one model, in order', (t) => {
  const models = groupModels(files('a-Q4_0-00002-of-00003.gguf', 'a-Q4_0-00001-of-00003.gguf', 'a-Q4_0-00003-of-00003.gguf', 'a-Q4_0.gguf', 'sub/a-Q4_0-00001-of-00003.gguf'));
  t.strictSame(models.map(({ name, parts, files: found, sizeBytes }) => [name, found.map(({ path }) => path), parts, sizeBytes]), [
    ['a-Q4_0', ['a-Q4_0.gguf'], 1, 100],
    ['sub/a-Q4_0', ['sub/a-Q4_0-00001-of-00003.gguf'], 3, 100],
    ['a-Q4_0', ['a-Q4_0-00001-of-00003.gguf', 'a-Q4_0-00002-of-00003.gguf', 'a-Q4_0-00003-of-00003.gguf'], 3, 300],
  ]);
  t.end();
});

t.test('projectors, draft heads and importance matrices are kinds of their own, and other files are ignored', (t) => {
  const models = groupModels(files(['m-Q8_0.gguf', 9], ['m-Q4_0.gguf', 5], 'mmproj-F16.gguf', 'm-mmproj-bf16.gguf', 'mtp-m-Q8_0.gguf', 'm-imatrix.gguf', 'imatrix_unsloth.gguf', 'README.md', 'm.safetensors'));
  t.strictSame(models.map(({ name, kind }) => [name, kind]), [
    ['m-Q4_0', 'model'], ['m-Q8_0', 'model'], ['mtp-m-Q8_0', 'mtp'], ['m-mmproj-bf16', 'projector'], ['mmproj-F16', 'projector'], ['imatrix_unsloth', 'imatrix'], ['m-imatrix', 'imatrix'],
  ]);
  t.end();
});

t.test('if every file is called MTP, that is part of the model name', (t) => {
  t.strictSame(groupModels(files('GLM-MTP-Q4_0.gguf', 'GLM-MTP-Q8_0.gguf', 'mmproj-F16.gguf')).map(({ kind }) => kind), ['model', 'model', 'projector']);
  t.end();
});

t.test('a model is chosen by path, file name, stem, quantization or any part, whatever the case', (t) => {
  const listing = files('m-Q4_K_M.gguf', 'm-UD-Q4_K_M.gguf', 'mtp-m-Q4_K_M.gguf', 'big/m-F16-00001-of-00002.gguf', 'big/m-F16-00002-of-00002.gguf', 'config.json');
  for (const [word, first] of [
    ['m-Q4_K_M.gguf', 'm-Q4_K_M.gguf'], ['q4_k_m', 'm-Q4_K_M.gguf'], ['UD-Q4_K_M', 'm-UD-Q4_K_M.gguf'], ['m-q4_k_m', 'm-Q4_K_M.gguf'], ['F16', 'big/m-F16-00001-of-00002.gguf'],
    ['fp16', 'big/m-F16-00001-of-00002.gguf'], ['big/m-F16-00002-of-00002.gguf', 'big/m-F16-00001-of-00002.gguf'], ['m-F16-00002-of-00002.gguf', 'big/m-F16-00001-of-00002.gguf'],
    ['m-F16', 'big/m-F16-00001-of-00002.gguf'], ['mtp-m-Q4_K_M.gguf', 'mtp-m-Q4_K_M.gguf'], ['config.json', 'config.json'],
  ] as const) t.equal(chooseModel('o/r', listing, word).files[0].path, first, word);
  t.end();
});

t.test('a name that matches several models lists them, and one that matches none gets suggestions', (t) => {
  const listing = files('a-Q4_0.gguf', 'b-Q4_0.gguf', 'c-Q8_0.gguf', 'd-F16-00001-of-00002.gguf');
  t.throws(() => chooseModel('o/r', listing, 'Q4_0'), { code: 'ambiguous_model', message: /a-Q4_0\.gguf, b-Q4_0\.gguf/ });
  t.throws(() => chooseModel('o/r', listing, 'Q8_1'), { code: 'repository_file_not_found', message: /Did you mean Q8_0\?.*Q4_0, Q8_0, F16/ });
  t.throws(() => chooseModel('o/r', listing, 'c-Q8_O.gguf'), { message: /Did you mean c-Q8_0\.gguf\?/ });
  t.throws(() => chooseModel('o/r', listing, 'F16'), { code: 'repository_file_not_found', message: /should have 2 parts, but the repository has 1/ });
  t.throws(() => chooseModel('o/r', files('model.safetensors'), 'Q8_0'), { message: /no GGUF files at all/ });
  t.end();
});
