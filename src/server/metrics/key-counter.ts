// A counter with a label for the API key. The series of keys that are gone are removed, so that
// their number stays bounded; sums over all keys still count them, since counters only grow. Built
// by instruments.
import { Counter, type CounterConfiguration, type MetricObjectWithValues, type MetricValue } from 'prom-client';

export class KeyCounter<Label extends string> extends Counter<Label | 'key'> {
  /** The sums of the keys that are gone, without their names. */
  readonly #gone: Counter<Label | 'key'>;

  constructor({ labelNames = [], ...others }: CounterConfiguration<Label>) {
    super({ ...others, labelNames: [...labelNames, 'key'] });
    this.#gone = new Counter<Label | 'key'>({ ...others, labelNames, registers: [] });
  }

  /** The values of all keys, also of those that are gone. */
  async getAll(): Promise<MetricObjectWithValues<MetricValue<Label | 'key'>>> {
    const [now, gone] = [await this.get(), await this.#gone.get()];
    return { ...now, values: [...now.values, ...gone.values] };
  }

  async forget(isGone: (key: string) => boolean): Promise<void> {
    const { values } = await this.get();
    for (const { labels, value } of values) {
      const { key, ...others } = labels;
      if (!isGone(String(key))) continue;
      this.remove(labels);
      this.#gone.inc(others as typeof labels, value);
    }
  }
}
