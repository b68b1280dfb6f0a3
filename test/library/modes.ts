// Shared by library tests: the two ways to run a model, and waiting for events.
import t, { type Test } from 'tap';
import { loadModel, type LoadOptions, type Model } from 'recua';

export type Load = (t: Test, options?: LoadOptions & { name?: string }) => Promise<Model>;

/** Runs a test with the model in this process, and in a process of its own. */
export function inBothModes(title: string, test: (t: Test, load: Load, isolated: boolean) => Promise<unknown>): void {
  for (const isolated of [false, true]) {
    t.test(`${title} (${isolated ? 'isolated' : 'in process'})`, async (t) => {
      await test(t, async (t, { name = 'builtin', ...options } = {}) => {
        const model = await loadModel(name, { isolated, ...options });
        t.teardown(() => model.dispose());
        return model;
      }, isolated);
    });
  }
}

export const codeOf = (promise: PromiseLike<unknown>): Promise<string> =>
  Promise.resolve(promise).then(() => 'none', (error: { code: string }) => error.code);

/** An answer that does not end by itself for a while. */
export const endless = { ignoreEos: true, maxTokens: 100_000 };
