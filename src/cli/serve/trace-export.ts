// Sends the spans of server/traces to a collector. OpenTelemetry's SDK is larger than all other
// dependencies together, so users who want traces install it, and it is loaded only here, on
// demand. Called by serving. Gateway process.
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { diag, DiagLogLevel, trace } from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace-node';
import { RecuaError } from '../../errors.js';
import { installCommand, ownInstallation } from '../../system/installation.js';
import type { makeLog } from '../terminal/output.js';

/** The versions that support Node 20; 3.x of some of these packages does not. */
const packages = ['@opentelemetry/sdk-trace-node@2', '@opentelemetry/exporter-trace-otlp-http@0.223', '@opentelemetry/resources@2'];

/**
 * Time to send spans, which OTEL_EXPORTER_OTLP_TIMEOUT overrides. A stop waits so long for the last
 * ones.
 */
const longestSendMs = 5_000;

type Log = ReturnType<typeof makeLog>;

export interface TraceExport {
  /** Resolves when the last spans were sent or failed. */
  close(): Promise<void>;
}

/**
 * `given` is `--traces`. Without it, OpenTelemetry's own variables decide; a problem with these is
 * only a warning, because they are often set for all programs of a machine.
 * @throws RecuaError `invalid_usage` for an invalid address, or if the SDK is not installed
 */
export async function startTraces(given: string, log: Log, env: NodeJS.ProcessEnv = process.env): Promise<TraceExport | undefined> {
  if (given !== '') return await exportTo(urlOf(given), log, env);
  const byVariable = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  if (!byVariable || env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none') return undefined;
  try {
    const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'];
    if (protocol === 'grpc') throw new RecuaError('invalid_usage', 'Expected a collector that takes OTLP over HTTP, got one for gRPC (OTEL_EXPORTER_OTLP_PROTOCOL). Name its other address: --traces http://127.0.0.1:4318');
    // The exporter reads the variables itself.
    return await exportTo(undefined, log, env);
  } catch (thrown) {
    log('warn', `No traces are sent, though OTEL_EXPORTER_OTLP_ENDPOINT asks for them: ${RecuaError.from(thrown).message}`);
    return undefined;
  }
}

/** Appends the path if it is missing, as for OTEL_EXPORTER_OTLP_ENDPOINT. */
export function urlOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw new RecuaError('invalid_usage', `Expected --traces with the address of a collector, such as http://127.0.0.1:4318, got ${JSON.stringify(given)}.`);
  if (url.username !== '' || url.password !== '') throw new RecuaError('invalid_usage', 'Expected --traces without a name and a password, which would show up in the settings. Set OTEL_EXPORTER_OTLP_HEADERS, e.g. to authorization=Bearer%20SECRET.');
  const path = url.pathname.replace(/\/+$/, '');
  url.pathname = path.endsWith('/v1/traces') ? path : `${path}/v1/traces`;
  return url.href;
}

async function exportTo(url: string | undefined, log: Log, env: NodeJS.ProcessEnv): Promise<TraceExport> {
  const { sdk, otlp, resources } = await loadSdk();
  tellOnce(log);
  const { version } = ownInstallation();
  const resource = resources.defaultResource()
    .merge(resources.resourceFromAttributes({ 'service.name': 'recua', 'service.version': version, 'service.instance.id': randomUUID() }))
    .merge(resources.detectResources({ detectors: [resources.envDetector] }));
  const hasTimeout = ['OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', 'OTEL_EXPORTER_OTLP_TIMEOUT'].some((name) => env[name]);
  const exporter = telling(
    new otlp.OTLPTraceExporter({ ...(url === undefined ? {} : { url }), ...(hasTimeout ? {} : { timeoutMillis: longestSendMs }) }),
    log,
  );
  const provider = new sdk.NodeTracerProvider({ resource, spanProcessors: [new sdk.BatchSpanProcessor(exporter)] });
  // Contexts are passed as values: a context manager would make every await more expensive.
  provider.register({ contextManager: null });
  return {
    async close() {
      await Promise.race([provider.shutdown().catch(() => undefined), wait(longestSendMs, undefined, { ref: false })]);
      trace.disable();
      diag.disable();
    },
  };
}

async function loadSdk() {
  try {
    const [sdk, otlp, resources] = await Promise.all([import('@opentelemetry/sdk-trace-node'), import('@opentelemetry/exporter-trace-otlp-http'), import('@opentelemetry/resources')]);
    return { sdk, otlp, resources };
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const isAbsent = code === 'ERR_MODULE_NOT_FOUND' && packages.some((name) => message.includes(`'${name.replace(/@[\d.]+$/, '')}'`));
    if (!isAbsent) throw new RecuaError('invalid_usage', `OpenTelemetry's SDK cannot be loaded: ${message}`, { cause });
    throw new RecuaError('invalid_usage', `Traces need OpenTelemetry's SDK, which does not come with Recua. Run \`${installCommand(ownInstallation(), packages.join(' '))}\`.`, { cause });
  }
}

/** Reports when sending starts to fail and when it works again, not each lost span. */
function telling(exporter: SpanExporter, log: Log): SpanExporter {
  let isFailing = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        // 0 is success.
        const isFailed = Number(result.code) !== 0;
        if (isFailed && !isFailing) log('warn', `Traces cannot be sent and are lost for now: ${result.error?.message ?? 'no reason was given'}`);
        if (!isFailed && isFailing) log('info', 'Traces are sent again.');
        isFailing = isFailed;
        // Otherwise the SDK would report the failure again.
        done({ code: 0 });
      });
    },
    forceFlush: async () => await exporter.forceFlush?.(),
    shutdown: async () => await exporter.shutdown(),
  };
}

/** Logs the SDK's own errors and warnings, each text once. */
function tellOnce(log: Log): void {
  const said = new Set<string>();
  const tell = (text: string): void => {
    if (said.size >= 20 || said.has(text)) return;
    said.add(text);
    log('warn', `OpenTelemetry: ${text}`);
  };
  const nothing = (): void => undefined;
  diag.setLogger(
    { error: tell, warn: tell, info: nothing, debug: nothing, verbose: nothing },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
