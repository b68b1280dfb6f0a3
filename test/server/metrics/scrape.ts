// Parses GET /metrics as strictly as Prometheus specifies its text format.
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface Scrape {
  /** The type of each metric. */
  types: Map<string, string>;
  samples: Sample[];
  /** The sum of all samples with this name and these labels. */
  sum(name: string, labels?: Record<string, string>): number;
}

export async function scrape(url: string, headers: Record<string, string> = {}): Promise<Scrape> {
  const res = await fetch(`${url}/metrics`, { headers });
  const text = await res.text();
  if (res.status !== 200) throw new Error(`${res.status}: ${text}`);
  return parse(text);
}

export function parse(text: string): Scrape {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  for (const line of text.split('\n')) {
    const [, name, type] = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/.exec(line) ?? [];
    if (name !== undefined) {
      if (types.has(name)) throw new Error(`${name} comes twice`);
      types.set(name, type!);
    } else if (line !== '' && !/^# HELP [a-zA-Z_:][\w:]* \S/.test(line)) {
      const sample = sampleOf(line);
      const key = line.slice(0, line.lastIndexOf(' '));
      if (seen.has(key)) throw new Error(`a series comes twice: ${line}`);
      seen.add(key);
      const of = types.get(sample.name) ?? types.get(sample.name.replace(/_(bucket|sum|count)$/, ''));
      if (of === undefined || (of === 'histogram') === types.has(sample.name)) throw new Error(`no type is told of ${line}`);
      samples.push(sample);
    }
  }
  return {
    types, samples,
    sum: (name, labels = {}) => samples
      .filter((one) => one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0),
  };
}

function sampleOf(line: string): Sample {
  const match = /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\[\\"n])*",?)*)\})? ([-+\d.eE]+|NaN|[+-]Inf)$/.exec(line);
  if (!match) throw new Error(`no line of a metric: ${line}`);
  const [, name = '', labels = '', value] = match;
  const all = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\[\\"n])*)"/g)].map(([, label, text]) => [label!, text!] as const);
  return { name, labels: Object.fromEntries(all), value: Number(value) };
}
