// Type-aware rules for src and test, plain ones for the scripts and the page, and one style for
// all. `npm run lint` runs them; `npm run lint -- --fix` mends.
import stylistic from '@stylistic/eslint-plugin';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const nodeGlobals = Object.fromEntries(['process', 'console', 'URL', 'Buffer', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval',
  'setImmediate', 'performance', 'fetch', 'AbortController', 'AbortSignal', 'TextDecoder', 'TextEncoder'].map((name) => [name, 'readonly']));

const plainRules = {
  'no-undef': 'error',
  'no-unused-vars': ['error', { args: 'after-used' }],
  'no-const-assign': 'error',
  'no-dupe-keys': 'error',
  'no-unreachable': 'error',
  'no-unsafe-finally': 'error',
  'no-var': 'error',
  'prefer-const': 'error',
  eqeqeq: 'error',
};

const styleRules = {
  ...stylistic.configs.customize({ semi: true, braceStyle: '1tbs', arrowParens: true }).rules,
  // Not for lines with a text, which is found by searching for it.
  '@stylistic/max-len': ['error', {
    code: 140, comments: 100, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true,
    // A type of JSDoc is one line.
    ignorePattern: '^\\s*(/\\*)?\\*.*@(param|type|returns|typedef|property)',
  }],
  '@stylistic/generator-star-spacing': ['error', { before: false, after: true, method: 'before' }],
  '@stylistic/lines-between-class-members': ['error', 'always', { exceptAfterSingleLine: true }],
  '@stylistic/quotes': ['error', 'single', { avoidEscape: true, allowTemplateLiterals: 'always' }],
  // Whoever writes them decides.
  ...Object.fromEntries(['list-style', 'quote-props', 'max-statements-per-line', 'multiline-ternary', 'no-mixed-operators', 'operator-linebreak', 'indent-binary-ops'].map((name) => [`@stylistic/${name}`, 'off'])),
};

export default defineConfig(
  { ignores: ['dist/**', 'dist-test/**', 'build/**', 'build-pack/**', 'npm/dist/**', 'vendor/**', 'web/vendor/**', 'node_modules/**', 'bench/build/**', 'bench/results/**', '.tap/**', '.cache/**'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  { plugins: { '@stylistic': stylistic }, rules: styleRules },
  { files: ['scripts/**/*.mjs', 'bench/**/*.mjs', 'eslint.config.js'], languageOptions: { globals: nodeGlobals }, rules: plainRules },
  // tsc knows the browser's globals.
  { files: ['web/**/*.js'], rules: { ...plainRules, 'no-undef': 'off' } },
  {
    files: ['src/**/*.ts', 'test/**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      'prefer-const': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'separate-type-imports' }],
      '@typescript-eslint/no-explicit-any': 'error',
      // It gives a derived type a name, in messages of tsc and in docs/api.md.
      '@typescript-eslint/no-empty-object-type': ['error', { allowInterfaces: 'with-single-extends' }],
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/prefer-promise-reject-errors': 'error',
      // Interfaces here hold functions that need no `this`, written as methods because that reads
      // better.
      '@typescript-eslint/unbound-method': 'off',
      // tsc reports the unused ones already.
      '@typescript-eslint/no-unused-vars': 'off',
      // An interface may promise what one implementation does at once.
      '@typescript-eslint/require-await': 'off',
      // Errors and paths from outside are shown as they are.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      // Tests look into JSON replies and call with wrong types on purpose; tap's t.test() promises
      // are waited for by tap.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-floating-promises': ['error', { allowForKnownSafePromises: [{ from: 'package', package: '@tapjs/core', name: 'PromiseWithSubtest' }] }],
      // Tests compile without noUncheckedIndexedAccess, so a `!` that src would need is only habit
      // here.
      '@typescript-eslint/no-unnecessary-type-assertion': 'off',
      'no-console': 'off',
    },
  },
);
