import t from 'tap';
import { isQuantization, isSidecar, kindOf, kindsAmong, modelKey, partName, partOf, quantizationOfName, sameQuantization, stemOf } from '#recua/models/names/model-names.js';

t.test('quantizationOfName() reads the quantization from a file name or its folder', (t) => {
  for (const [file, expected] of [
    ['qwen2.5-0.5b-instruct-q4_k_m.gguf', 'Q4_K_M'], ['Llama-3-8B.Q8_0.gguf', 'Q8_0'], ['m-UD-Q4_K_XL.gguf', 'UD-Q4_K_XL'], ['m-IQ2_XXS.gguf', 'IQ2_XXS'], ['m-BF16.gguf', 'BF16'],
    ['m.f16.gguf', 'F16'], ['m-F32.gguf', 'F32'], ['m-fp16.gguf', 'F16'], ['gpt-oss-20b-MXFP4.gguf', 'MXFP4'], ['m-Q6_K.gguf', 'Q6_K'], ['m-TQ1_0.gguf', 'TQ1_0'], ['Q4_K_M/big-00001-of-00002.gguf', 'Q4_K_M'],
    ['m-Q5_K_S-00002-of-00003.gguf', 'Q5_K_S'], ['Qwen2-7B.gguf', ''], ['model.gguf', ''], ['m-Q4_K_M.imatrix.gguf', 'Q4_K_M'], ['q8x.gguf', ''],
  ]) t.equal(quantizationOfName(file), expected, file);
  t.ok(sameQuantization('q4_k_xl', 'UD-Q4_K_XL'));
  t.ok(sameQuantization('ud-q4_k_xl', 'UD-Q4_K_XL'));
  t.ok(sameQuantization('fp16', 'F16'));
  t.notOk(isQuantization('q4_k_xl', 'UD-Q4_K_XL'));
  t.notOk(sameQuantization('q4_k', 'Q4_K_M'));
  t.notOk(sameQuantization('', ''));
  t.end();
});

t.test('parts, stems and sidecars are read from the name', (t) => {
  t.strictSame(partOf('a/b-00002-of-00010.gguf'), { part: 2, total: 10 });
  t.strictSame(partOf('b-0002-of-0010.gguf'), { part: 1, total: 1 });
  t.equal(partName('a/b-00002-of-00010.gguf', 7), 'a/b-00007-of-00010.gguf');
  t.equal(stemOf('a/b-00002-of-00010.gguf'), 'b');
  t.equal(stemOf('x.y.GGUF'), 'x.y');
  t.equal(modelKey('a/b-00002-of-00010.gguf'), modelKey('a/b-00001-of-00010.gguf'));
  for (const other of ['b-00001-of-00010.gguf', 'a/b-00001-of-00009.gguf', 'a/b.gguf', 'a/c-00001-of-00010.gguf']) t.not(modelKey(other), modelKey('a/b-00001-of-00010.gguf'), other);
  for (const file of ['mmproj-F16.gguf', 'sub/mmproj-model-f16.gguf', 'gemma-mmproj.gguf', 'm.mmproj-Q8_0.gguf', 'mm-proj-F16.gguf', 'imatrix.gguf', 'imatrix_unsloth.gguf']) t.ok(isSidecar(file), file);
  for (const file of ['model.gguf', 'Kunoichi-7B-Q4_K_M-imatrix.gguf', 'm-imatrix-IQ2_XXS.gguf', 'mmprojector-7b.gguf', 'mmproj/model.gguf', 'm-imatrix.gguf', 'mtp-m.gguf']) t.notOk(isSidecar(file), file);
  for (const file of ['imatrix.gguf', 'm-imatrix.gguf', 'm-BF16-imatrix.gguf', 'm.Q8_0.imatrix.gguf']) t.equal(kindOf(file), 'imatrix', file);
  for (const file of ['Kunoichi-7B-Q4_K_M-imatrix.gguf', 'm-imatrix-IQ2_XXS.gguf', 'm-MXFP4-imatrix.gguf']) t.equal(kindOf(file), 'model', file);
  t.equal(kindsAmong(['m-v2-imatrix.gguf', 'README.md'])('m-v2-imatrix.gguf'), 'model', 'the only one');
  t.end();
});
