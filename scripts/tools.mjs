// The tools that set-up needs. For each missing tool, a sentence names it and how to get it.
import { capture, Failure, npm } from './process.mjs';

const onWindows = process.platform === 'win32';

const sources = {
  node: ['sudo apt install nodejs npm', 'sudo dnf install nodejs', 'brew install node', 'winget install OpenJS.NodeJS.LTS'],
  npm: ['sudo apt install npm', 'sudo dnf install npm', 'brew install node', 'winget install OpenJS.NodeJS.LTS'],
  git: ['sudo apt install git', 'sudo dnf install git', 'xcode-select --install', 'winget install Git.Git'],
  cmake: ['sudo apt install cmake', 'sudo dnf install cmake', 'brew install cmake', 'winget install Kitware.CMake'],
  compiler: ['sudo apt install g++', 'sudo dnf install gcc-c++', 'xcode-select --install',
    'winget install Microsoft.VisualStudio.2022.BuildTools --override "--add Microsoft.VisualStudio.Workload.VCTools"'],
  make: ['sudo apt install make', 'sudo dnf install make', 'xcode-select --install', 'winget install Ninja-build.Ninja'],
};

function advice(tool) {
  const [debian, fedora, mac, windows] = sources[tool];
  return `get it with \`${debian}\` (Debian, Ubuntu), \`${fedora}\` (Fedora), \`${mac}\` (macOS) or \`${windows}\` (Windows).`;
}

/** Parses the first version in a text: `3.25.1` gives `[3, 25]`. */
function version(text) {
  const match = /(\d+)\.(\d+)/.exec(text ?? '');
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

function atLeast(found, [major, minor]) {
  return found[0] > major || (found[0] === major && found[1] >= minor);
}

function checkNode() {
  const found = version(process.versions.node);
  const oldest = { 20: [20, 17], 22: [22, 9] }[found[0]] ?? [23, 0];
  if (!atLeast(found, oldest)) return { missing: `Recua needs Node 20.17 or newer, of Node 22 at least 22.9, this is ${process.versions.node}: ${advice('node')}` };
  return { found: `node ${process.versions.node}` };
}

function checkNpm() {
  const { command, args, shell } = npm(['--version']);
  const text = capture(command, args, { shell });
  const found = /^\d+\.\d+\.\d+/m.exec(text ?? '');
  return found ? { found: `npm ${found[0]}` } : { missing: `npm is missing, which installs the packages: ${advice('npm')}` };
}

function checkGit() {
  const found = version(capture('git', ['--version']));
  return found ? { found: `git ${found.join('.')}` } : { missing: `git is missing, which fetches and verifies llama.cpp: ${advice('git')}` };
}

function checkCmake() {
  const found = version(capture('cmake', ['--version']));
  if (!found) return { missing: `cmake is missing, which builds the native addon: ${advice('cmake')}` };
  if (!atLeast(found, [3, 14])) return { missing: `Recua needs cmake 3.14 or newer, this is ${found.join('.')}: ${advice('cmake')}` };
  return { found: `cmake ${found.join('.')}` };
}

/**
 * A compiler counts if it compiles a C++17 program with a standard header; its name alone says
 * little.
 */
function checkCompiler() {
  if (onWindows) return { found: 'the C++ compiler that cmake finds' };
  const program = '#include <optional>\n#include <string_view>\nint main() { std::optional<std::string_view> x; return x ? 1 : 0; }\n';
  let broken;
  for (const name of [process.env.CXX, 'c++', 'g++', 'clang++'].filter(Boolean)) {
    if (capture(name, ['--version']) === undefined) continue;
    if (capture(name, ['-std=c++17', '-fsyntax-only', '-x', 'c++', '-'], { input: program }) !== undefined) {
      return { found: `${name} ${version(capture(name, ['-dumpfullversion', '-dumpversion']))?.join('.') ?? ''}`.trim() };
    }
    broken ??= name;
  }
  if (broken) return { missing: `The C++ compiler ${broken} does not take C++17 with the standard library, a newer one is needed: ${advice('compiler')}` };
  return { missing: `A C++17 compiler is missing, which builds the native addon: ${advice('compiler')}` };
}

function checkMake() {
  if (onWindows) return { found: 'the build tool that cmake finds' };
  for (const name of ['ninja', 'ninja-build', 'make']) {
    if (capture(name, ['--version']) !== undefined) return { found: name };
  }
  return { missing: `make (or ninja) is missing, which drives the compiler: ${advice('make')}` };
}

/** Names and versions of the tools; throws one sentence for each missing tool. */
export function checkTools() {
  const results = [checkNode, checkNpm, checkGit, checkCmake, checkCompiler, checkMake].map((check) => check());
  const missing = results.flatMap((result) => result.missing ?? []);
  if (missing.length > 0) throw new Failure(missing.join('\n'));
  return results.map((result) => result.found).join(', ');
}
