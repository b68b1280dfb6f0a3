// Kubernetes objects: a Deployment that drains, a Service that finds its pods, an autoscaler on
// waiting requests, and a pool for gateways of the Gateway API inference extension.
import { RecuaError } from '../errors.js';
import { isHubName, tryRepositoryName } from '../models/names/repository-name.js';
import { shellWord } from '../models/names/shell-word.js';
import { afterDrainSeconds } from '../settings/stop-time.js';
import type { Written } from './replicas.js';

export interface Deployed {
  /** Name of all objects. */
  name: string;
  replicas: number;
  image: string;
  /** As `recua api` takes it. */
  model: string;
  /** The Secret whose `api-key` the servers require; '' for none. */
  secret: string;
}

const port = 8080;
const drainSeconds = 120;
/** Time for every balancer to notice that a pod leaves. */
const leaveSeconds = 10;
const mostReplicas = 1000;
const misuse = (message: string): RecuaError => new RecuaError('invalid_usage', message);

/** Throws `invalid_usage` for values that Kubernetes would reject. */
export function checkDeployed({ name, image, model, secret }: Omit<Deployed, 'replicas'>): void {
  const isLabel = (text: string): boolean => /^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$/.test(text);
  if (!isLabel(name)) throw misuse(`Expected a name of lowercase letters, digits and dashes, at most 52, for --name, got ${JSON.stringify(name)}.`);
  if (image === '') throw misuse('Expected the container image that contains recua: --image registry.example.com/recua:1.0, got none. docs/deployment.md has its Dockerfile.');
  if (!/^[a-z0-9][\w.:/@-]*$/i.test(image)) throw misuse(`Expected a container image for --image, got ${JSON.stringify(image)}.`);
  if (model === '') throw misuse('Expected the model that each replica serves: --model owner/repo:Q4_K_M, got none.');
  if (/[\u0000-\u001f\u007f]/.test(model) || model.startsWith('-')) throw misuse(`Expected a model for --model, got ${JSON.stringify(model)}.`);
  if (isFetched(model)) checkPullable(model);
  if (secret !== '' && !/^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(secret)) {
    throw misuse(`Expected the name of a Secret for --api-key-secret, got ${JSON.stringify(secret)}.`);
  }
}

/** Whether a pod pulls the model before it starts. */
const isFetched = (model: string): boolean => !model.startsWith('/') && model !== 'builtin';

/** A pod chooses no file of a repository, and knows no aliases of this machine. */
function checkPullable(model: string): void {
  const name = tryRepositoryName(model, 'https://huggingface.co');
  if (isHubName(name) && (name.word ?? name.file) !== undefined) return;
  const hint = isHubName(name) ? ` recua pull ${shellWord(model)} lists its files.` : '';
  throw misuse(`Expected a repository with a quantization or file, which each pod pulls, such as owner/repo:Q4_K_M, for --model, or a path in the pod that begins with /, or builtin, got ${JSON.stringify(model)}.${hint}`);
}

/** For Kubernetes, `--replicas` is a number: pods have no addresses yet. */
export function readCount(text: string): number {
  const count = /^\d{1,6}$/.test(text.trim()) ? Number(text) : NaN;
  if (!(count >= 1 && count <= mostReplicas)) {
    throw misuse(`Expected how many replicas Kubernetes runs at first, from 1 to ${mostReplicas}, for --replicas, got ${text === '' ? 'none' : JSON.stringify(text)}.`);
  }
  return count;
}

/** YAML reads words such as `true` and `1e3` as other types, unless they are quoted. */
function yamlText(text: string): string {
  return /^(?:true|false|yes|no|on|off|y|n|null|0x[\da-f]+|0o[0-7]+|0b[01]+|[\d.]+(?:e[-+]?\d+)?)$/i.test(text) ? JSON.stringify(text) : text;
}

export function kubernetesConfig({ replicas, image, model, ...given }: Deployed): Written {
  const [name, secret] = [yamlText(given.name), yamlText(given.secret)];
  const labels = `app.kubernetes.io/name: recua\n@app.kubernetes.io/instance: ${name}`;
  const labeled = (indent: number): string => labels.replaceAll('@', ' '.repeat(indent));
  const places = `env:
            - { name: SERVICE_HOME, value: /models }${secret === '' ? '' : `
            - name: RECUA_API_KEY
              valueFrom: { secretKeyRef: { name: ${secret}, key: api-key } }`}
          volumeMounts:
            - { name: models, mountPath: /models }`;
  const text = `# Written by recua cluster config kubernetes.
# Check: kubectl apply --dry-run=server -f FILE    Apply: kubectl apply -f FILE
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  labels:
    ${labeled(4)}
spec:
  # The initial number; the autoscaler below changes it.
  replicas: ${replicas}
  selector:
    matchLabels:
      ${labeled(6)}
  # A new pod is ready before an old one leaves.
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  template:
    metadata:
      labels:
        ${labeled(8)}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "${port}"
        prometheus.io/path: /metrics
    spec:
      # Else a Service named recua would set RECUA_PORT and other variables in all pods beside it.
      enableServiceLinks: false
      # The pause, the drain, and the final writes.
      terminationGracePeriodSeconds: ${leaveSeconds + drainSeconds + afterDrainSeconds}
${isFetched(model) ? `      initContainers:
        - name: pull
          image: ${image}
          command: ["recua", "pull", ${JSON.stringify(model)}]
          ${places.replace(/\n {12}- name: RECUA_API_KEY\n.*$/m, '')}
` : ''}      containers:
        - name: recua
          image: ${image}
          command: ["recua", "api", ${JSON.stringify(model)}, "--host", "0.0.0.0", "--port", "${port}", "--drain-timeout", "${drainSeconds}"]
          ${places}
          ports:
            - { name: http, containerPort: ${port} }
          # A large model may take up to half an hour to load; a loading server is alive.
          startupProbe:
            httpGet: { path: /health/live, port: http }
            periodSeconds: 5
            failureThreshold: 360
          readinessProbe:
            httpGet: { path: /health/ready, port: http }
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          livenessProbe:
            httpGet: { path: /health/live, port: http }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # Balancers learn that the pod leaves before it stops.
          lifecycle:
            preStop:
              exec: { command: ["sleep", "${leaveSeconds}"] }
          # Set memory to what recua show MODEL -np 4 says, plus 100 MiB and what --cache-ram may use;
          # and nvidia.com/gpu if there is a GPU.
          resources:
            requests: { cpu: "2", memory: 4Gi }
      volumes:
        # Or a persistentVolumeClaim, so that a new pod has its model immediately.
        - name: models
          emptyDir: {}
---
# The address of every pod, for balancers in the cluster.
apiVersion: v1
kind: Service
metadata:
  name: ${name}
  labels:
    ${labeled(4)}
spec:
  clusterIP: None
  selector:
    ${labeled(4)}
  ports:
    - { name: http, port: ${port}, targetPort: http }
---
# Evict one pod at a time.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: ${name}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      ${labeled(6)}
---
# Add pods when requests wait. Needs prometheus-adapter or another source of custom metrics.
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: ${name}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: ${name} }
  minReplicas: ${replicas}
  maxReplicas: ${Math.min(mostReplicas, replicas * 4)}
  metrics:
    - type: Pods
      pods:
        metric: { name: recua_requests_waiting }
        target: { type: AverageValue, averageValue: "2" }
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 30
    # A conversation loses its cache with its pod.
    scaleDown:
      stabilizationWindowSeconds: 600
      policies:
        - { type: Pods, value: 1, periodSeconds: 300 }
---
# Gateways send each request to the pod that has its beginning cached. Needs the custom resources
# of the Gateway API inference extension, and its endpoint picker under this name.
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata:
  name: ${name}
spec:
  targetPorts:
    - number: ${port}
  selector:
    matchLabels:
      ${labeled(6)}
  endpointPickerRef:
    name: ${given.name}-epp
    port:
      number: 9002
    failureMode: FailOpen
`;
  return {
    text,
    notes: [
      'The autoscaler needs recua_requests_waiting as a custom metric of pods (prometheus-adapter); without it, the number of pods stays the same.',
      `The InferencePool needs the Gateway API inference extension, and an endpoint picker named ${given.name}-epp that reads vLLM's metrics.`,
      secret === ''
        ? 'The servers need no key: every client that reaches the pods may use them. --api-key-secret NAME sets one.'
        : `Create the Secret first: kubectl create secret generic ${given.secret} --from-literal=api-key=… . /metrics needs the key, too: Prometheus can send it; the endpoint picker cannot, and balances without those metrics.`,
    ],
  };
}
