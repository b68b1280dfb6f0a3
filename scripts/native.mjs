// The native addon of a checkout, in build/, for this machine only.
import { cmakeBuild } from './cmake-build.mjs';
import { place } from './place.mjs';
import { Failure } from './process.mjs';
import { withoutOptions } from './processor.mjs';

/** The user's own cmake options without `-D`, e.g. RECUA_CMAKE_ARGS="-DGGML_CUDA=ON". */
export function cmakeOptions() {
  const given = (process.env.RECUA_CMAKE_ARGS ?? '').split(/\s+/).filter(Boolean);
  const wrong = given.find((option) => !/^-D[\w-]+(:\w+)?=/.test(option));
  if (wrong) throw new Failure(`RECUA_CMAKE_ARGS takes options like -DGGML_CUDA=ON, not ${wrong}.`);
  return given.map((option) => option.slice(2));
}

const local = () => cmakeBuild({ folder: place.build, options: [...withoutOptions(), ...cmakeOptions()], product: place.addon });

export function nativePending() {
  return local().pending();
}

export function buildNative(report) {
  return local().build(report);
}
