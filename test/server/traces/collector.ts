// A collector for OpenTelemetry exporters: OTLP over HTTP, in JSON.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

export interface Collected {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  /** 1 is internal, 2 of a server. */
  kind: number;
  startMs: number;
  endMs: number;
  attributes: Record<string, unknown>;
  /** 2 is an error. */
  status: { code?: number; message?: string };
  resource: Record<string, unknown>;
  scope: string;
}

export interface Collector {
  url: string;
  spans: Collected[];
  /** All received bodies, unchanged. */
  text(): string;
  /** Headers of each request. */
  headers: NodeJS.Dict<string | string[]>[];
  /** Resolves to the first matching span. */
  span(fits: (span: Collected) => boolean): Promise<Collected>;
  childrenOf(parent: Collected): Collected[];
  /** Answers with this status from now on; 0 means no answer. */
  status: number;
  close(): Promise<void>;
}

interface WireValue {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
  boolValue?: boolean;
  arrayValue?: { values: WireValue[] };
}

type WireAttributes = { key: string; value: WireValue }[];

interface WireSpan extends Omit<Collected, 'attributes' | 'resource' | 'scope' | 'startMs' | 'endMs'> {
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: WireAttributes;
}

interface WireTraces {
  resourceSpans: { resource: { attributes: WireAttributes }; scopeSpans: { scope: { name: string }; spans: WireSpan[] }[] }[];
}

function valueOf({ stringValue, intValue, doubleValue, boolValue, arrayValue }: WireValue): unknown {
  return arrayValue
    ? arrayValue.values.map(valueOf)
    : ((intValue === undefined ? undefined : Number(intValue)) ?? stringValue ?? doubleValue ?? boolValue);
}

const read = (attributes: WireAttributes): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));

export async function startCollector(t: Test, path = '/v1/traces'): Promise<Collector> {
  const texts: string[] = [];
  const waiting = new Set<() => void>();
  const server = createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (chunk: string) => (body += chunk)).on('end', () => {
      if (collector.status === 0) return;
      if (req.url !== path || collector.status !== 200) return void res.writeHead(req.url === path ? collector.status : 404).end();
      collector.headers.push(req.headers);
      texts.push(body);
      for (const { resource, scopeSpans } of (JSON.parse(body) as WireTraces).resourceSpans) {
        for (const { scope, spans } of scopeSpans) {
          collector.spans.push(...spans.map(({ startTimeUnixNano, endTimeUnixNano, attributes, ...span }) => ({
            ...span, startMs: Number(BigInt(startTimeUnixNano) / 1_000n) / 1_000, endMs: Number(BigInt(endTimeUnixNano) / 1_000n) / 1_000,
            attributes: read(attributes), resource: read(resource.attributes), scope: scope.name,
          })));
        }
      }
      res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      for (const look of waiting) look();
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const close = (): Promise<void> => new Promise((closed) => {
    server.close(() => closed());
    server.closeAllConnections();
  });
  t.teardown(close);
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans: [], headers: [], status: 200, text: () => texts.join('\n'), close,
    span: (fits) => new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no span fits ${fits.toString()} among ${collector.spans.map(({ name }) => name).join(', ')}`)), 30_000);
      const look = (): void => {
        const found = collector.spans.find(fits);
        if (!found) return;
        waiting.delete(look);
        clearTimeout(timer);
        resolve(found);
      };
      waiting.add(look);
      look();
    }),
    childrenOf: ({ spanId, traceId }) => collector.spans.filter((one) => one.parentSpanId === spanId && one.traceId === traceId),
  };
  return collector;
}
