// A YAML parser reads the objects, and they fit together: selectors match the pods, probes use
// existing routes, and the grace period covers the drain.
import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { checkDeployed, kubernetesConfig, readCount } from '#recua/cluster/kubernetes.js';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { findPlace } from '#recua/cli/command-tree.js';
import { allCommands } from '#recua/cli/table.js';
import { describeApi } from '#recua/server/app.js';

interface Probe { httpGet: { path: string; port: string } }
interface Container {
  name: string;
  image: string;
  command: string[];
  env: { name: string; value?: string; valueFrom?: object }[];
  ports?: { name: string; containerPort: number }[];
  readinessProbe: Probe;
  livenessProbe: Probe;
  startupProbe: Probe;
  lifecycle: { preStop: { exec: { command: string[] } } };
  volumeMounts: { name: string; mountPath: string }[];
}
interface Pod {
  containers: [Container];
  initContainers?: [Container];
  terminationGracePeriodSeconds: number;
  enableServiceLinks: boolean;
  volumes: { name: string }[];
}
type Labels = Record<string, string>;

const given = { name: 'llamas', replicas: 4, image: 'registry.example.com/recua:1.0', model: 'owner/repo:Q4_K_M', secret: '' };

function read(deployed: typeof given) {
  const documents = parseAllDocuments(kubernetesConfig(deployed).text, { strict: true, uniqueKeys: true });
  if ('empty' in documents) throw new Error('nothing there');
  const objects = documents.map((document) => {
    if (document.errors.length > 0 || document.warnings.length > 0) throw new Error(String(document.errors[0] ?? document.warnings[0]));
    return document.toJS() as { apiVersion: string; kind: string; metadata: { name: string }; spec: Record<string, unknown> };
  });
  return new Map(objects.map((one) => [one.kind, one]));
}

t.test('the objects select the same pods and name each other', async (t) => {
  const objects = read(given);
  t.strictSame([...objects].map(([kind, { apiVersion, metadata }]) => [apiVersion, kind, metadata.name]), [
    ['apps/v1', 'Deployment', 'llamas'], ['v1', 'Service', 'llamas'], ['policy/v1', 'PodDisruptionBudget', 'llamas'], ['autoscaling/v2', 'HorizontalPodAutoscaler', 'llamas'],
    ['inference.networking.k8s.io/v1', 'InferencePool', 'llamas'],
  ]);
  const deployment = objects.get('Deployment')!.spec as { replicas: number; selector: { matchLabels: Labels }; template: { metadata: { labels: Labels }; spec: Pod }; strategy: { rollingUpdate: object } };
  const labels = { 'app.kubernetes.io/name': 'recua', 'app.kubernetes.io/instance': 'llamas' };
  t.strictSame(deployment.selector.matchLabels, labels);
  t.strictSame(deployment.template.metadata.labels, labels);
  t.match(objects.get('Service')!.spec, { clusterIP: 'None', selector: labels });
  t.match(objects.get('PodDisruptionBudget')!.spec, { maxUnavailable: 1, selector: { matchLabels: labels } });
  t.match(objects.get('InferencePool')!.spec, { selector: { matchLabels: labels }, targetPorts: [{ number: 8080 }], endpointPickerRef: { name: 'llamas-epp', port: { number: 9002 } } });
  t.match(objects.get('HorizontalPodAutoscaler')!.spec, {
    scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'llamas' }, minReplicas: 4, maxReplicas: 16,
    metrics: [{ type: 'Pods', pods: { metric: { name: 'recua_requests_waiting' }, target: { type: 'AverageValue', averageValue: '2' } } }],
  });
  t.strictSame(deployment.strategy.rollingUpdate, { maxUnavailable: 0, maxSurge: 1 });

  const pod = deployment.template.spec;
  const [server] = pod.containers;
  const all = await allCommands();
  const [, name, ...words] = server.command;
  const { values, operands } = parseArguments('api', findPlace(all, [name!]).command.flags, words);
  t.match(values, { host: '0.0.0.0', port: 8080, drainSeconds: 120 });
  t.strictSame(operands, ['owner/repo:Q4_K_M']);
  t.strictSame(server.ports, [{ name: 'http', containerPort: 8080 }]);
  const { document } = describeApi();
  t.strictSame([server.startupProbe, server.livenessProbe, server.readinessProbe].map(({ httpGet }) => httpGet), ['live', 'live', 'ready'].map((which) => ({ path: `/health/${which}`, port: 'http' })));
  for (const { httpGet } of [server.livenessProbe, server.readinessProbe]) t.ok(httpGet.path in document.paths);
  const [sleep, seconds] = server.lifecycle.preStop.exec.command;
  t.equal(sleep, 'sleep');
  t.equal(pod.enableServiceLinks, false);
  t.ok(pod.terminationGracePeriodSeconds > Number(seconds) + 120 + 30, 'the pause, the drain and what comes after it');
  t.strictSame(server.volumeMounts.map((one) => one.name), pod.volumes.map((one) => one.name));
  const { value: home } = server.env.find((one) => one.name === 'SERVICE_HOME')!;
  t.equal(server.volumeMounts[0]!.mountPath, home);
  const [, pull, ...pulled] = pod.initContainers![0].command;
  t.strictSame(parseArguments('pull', findPlace(all, [pull!]).command.flags, pulled).operands, ['owner/repo:Q4_K_M']);
});

t.test('a name that YAML reads as another type stays a name', (t) => {
  for (const name of ['true', 'null', 'on']) {
    const objects = read({ ...given, name, secret: name });
    for (const { metadata, kind } of objects.values()) t.equal(metadata.name, name, kind);
    const { template } = objects.get('Deployment')!.spec as { template: { metadata: { labels: Labels }; spec: Pod } };
    t.equal(template.metadata.labels['app.kubernetes.io/instance'], name);
    t.match(template.spec.containers[0].env.at(-1), { valueFrom: { secretKeyRef: { name } } });
  }
  t.end();
});

t.test('a key comes from a Secret, and only the server has it; a file is not pulled', (t) => {
  const podOf = (deployed: typeof given) => (read(deployed).get('Deployment')!.spec as { template: { spec: Pod } }).template.spec;
  const pod = podOf({ ...given, secret: 'recua-key' });
  t.match(pod.containers[0].env.find(({ name }) => name === 'RECUA_API_KEY'), { valueFrom: { secretKeyRef: { name: 'recua-key', key: 'api-key' } } });
  t.notOk(pod.initContainers![0].env.some(({ name }) => name === 'RECUA_API_KEY'));
  t.strictSame(pod.initContainers![0].volumeMounts, pod.containers[0].volumeMounts);
  t.notOk(podOf(given).containers[0].env.some(({ name }) => name === 'RECUA_API_KEY'));
  const odd = '/models/a "b": #c.gguf';
  t.equal(podOf({ ...given, model: odd }).containers[0].command[2], odd);
  t.equal(podOf({ ...given, model: odd }).initContainers, undefined);
  t.match(kubernetesConfig(given).notes.join('\n'), /no key/);
  t.match(kubernetesConfig({ ...given, secret: 'k' }).notes.join('\n'), /create secret generic k/);
  t.end();
});

t.test('values that Kubernetes would refuse are refused', (t) => {
  const wrong: [Partial<typeof given>, RegExp][] = [
    [{ name: 'A' }, /--name/], [{ name: '-a' }, /--name/], [{ name: 'a'.repeat(53) }, /--name/], [{ image: '' }, /--image.*got none/], [{ image: 'a b' }, /--image/], [{ image: 'a\nb: c' }, /--image/],
    [{ model: '' }, /--model.*got none/], [{ model: 'a\nb' }, /--model/], [{ model: '--host' }, /--model/],
    [{ model: 'owner/repo' }, /quantization or file.*recua pull owner\/repo lists/], [{ model: 'owner/repo@main' }, /quantization or file/], [{ model: 'https://huggingface.co/owner/repo' }, /quantization or file/],
    [{ model: 'llama' }, /which each pod pulls/], [{ model: 'models/a.gguf' }, /begins with \//], [{ secret: 'A_b' }, /--api-key-secret/], [{ secret: 'a\nb' }, /--api-key-secret/],
  ];
  for (const [more, message] of wrong) t.throws(() => checkDeployed({ ...given, ...more }), { code: 'invalid_usage', message }, JSON.stringify(more));
  for (const model of ['owner/repo:Q4_K_M', 'owner/repo@v1:a.gguf', 'owner/repo/a.gguf', 'https://huggingface.co/owner/repo/blob/main/a.gguf', '/models/a.gguf', 'builtin']) checkDeployed({ ...given, model });
  t.equal(readCount(' 4 '), 4);
  for (const text of ['', '0', '-1', '1.5', '1001', 'http://a', '1e3']) t.throws(() => readCount(text), { code: 'invalid_usage', message: /from 1 to 1000/ }, text);
  t.end();
});
