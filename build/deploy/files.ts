/** All derived deployment files: path → content. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { fromRoot } from "../paths.js";
import { CHART, helmTemplate, packageVersion, readValues, substitute } from "./values.js";

export type Files = Map<string, string>;

const TEMPLATES = "deploy/templates";
const note = (source: string) => `Written by \`make deploy-files\` from ${source}. Do not edit.`;

export function deployFiles(): Files {
  return new Map([
    ...chartFiles(),
    ...fromTemplates(),
    ...manifests(),
    ...composeConfigs(),
    ...alpine(),
    ...terraform(),
    ...ansible(),
  ]);
}

/** Folders that contain only derived files, so that others in them are stale. */
const DERIVED_FOLDERS = [
  ...["deploy/kubernetes/trial", "deploy/kubernetes/production"],
  ...[`${CHART}/files/dashboards`, `${CHART}/files/rules`],
];

/** Which of the files must be written, and which in the repository are no longer derived from anything. */
export function compareFiles(files: Files): { stale: string[]; extra: string[] } {
  const isCurrent = (path: string, text: string) =>
    existsSync(fromRoot(path)) && readFileSync(fromRoot(path), "utf8") === text;
  const existing = DERIVED_FOLDERS.flatMap((folder) => listed(folder).map((name) => `${folder}/${name}`));
  return {
    stale: [...files].filter(([path, text]) => !isCurrent(path, text)).map(([path]) => path),
    extra: existing.filter((path) => !files.has(path)),
  };
}

/** What the chart contains besides its own templates: the version, and files that a chart cannot read from outside. */
export function chartFiles(): Files {
  const chart = readFileSync(fromRoot(`${CHART}/Chart.yaml`), "utf8");
  const version = packageVersion();
  const files: Files = new Map([
    [
      `${CHART}/Chart.yaml`,
      chart.replace(/^version: .*$/m, `version: ${version}`).replace(/^appVersion: .*$/m, `appVersion: ${version}`),
    ],
    [`${CHART}/files/demo-backend.mjs`, readFileSync(fromRoot("deploy/compose/demo/backend.mjs"), "utf8")],
  ]);
  for (const [from, to, ending] of [
    ["monitoring/grafana/dashboards", "dashboards", ".json"],
    ["monitoring/prometheus/rules", "rules", ".yml"],
  ] as const) {
    for (const name of listed(from).filter((each) => each.endsWith(ending))) {
      files.set(`${CHART}/files/${to}/${name}`, readFileSync(fromRoot(`${from}/${name}`), "utf8"));
    }
  }
  return files;
}

/** Each template has the path of its file. */
function fromTemplates(): Files {
  const values = { ...readValues(), version: packageVersion() };
  const files: Files = new Map();
  for (const path of listed(TEMPLATES, true)) {
    const source = `${TEMPLATES}/${path}`;
    const text = substitute(readFileSync(fromRoot(source), "utf8"), values, source);
    files.set(path, `# ${note(`${source} and ${CHART}/values.yaml`)}\n${text}`);
  }
  return files;
}

/** Plain manifests of two installations, one file per template of the chart. */
function manifests(): Files {
  const release = String(readValues().project_name);
  const files: Files = new Map();
  const sets = [
    ["trial", [], ["--set", "secrets.create=false", "--set", `secrets.existing=${release}-tokens`]],
    ["production", [`${CHART}/values-production.yaml`], []],
  ] as const;
  for (const [set, values, options] of sets) {
    const text = helmTemplate(release, [...values], [...options, "--set", "create_namespace=true", "--skip-tests"]);
    for (const [name, documents] of byTemplate(text)) {
      const source = values[0] ?? `${CHART}/values.yaml`;
      files.set(`deploy/kubernetes/${set}/${name}`, `# ${note(`the chart and ${source}`)}\n${documents.join("")}`);
    }
  }
  return files;
}

function byTemplate(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const part of text.split(/^---\n/m)) {
    const [, name] = part.match(/^# Source: [^/]+\/templates\/(.+)\n/) ?? [];
    if (name === undefined) continue;
    const document = part.replace(/^# Source: .*\n/, "").trimEnd();
    // Labels of Helm have no meaning without it.
    const plain = document.replace(/^ *(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*\n/gm, "");
    found.set(name, [...(found.get(name) ?? []), `---\n${plain}\n`]);
  }
  return found;
}

/** tollgate.yaml of the Compose files: what the chart would put into its ConfigMap with their values. */
function composeConfigs(): Files {
  const files: Files = new Map();
  for (const [values, path] of [
    ["deploy/compose/values.yaml", "deploy/compose/tollgate.yaml"],
    ["deploy/compose/values-prod.yaml", "deploy/compose/tollgate-prod.yaml"],
  ] as const) {
    const text = helmTemplate("tollgate", [values], ["--show-only", "templates/configmap.yaml"]);
    const [config] = parseAllDocuments(text).map((each) => each.toJS() as { data?: Record<string, string> });
    files.set(path, `# ${note(`${CHART}/values.yaml and ${values}`)}\n${config?.data?.["tollgate.yaml"] ?? ""}`);
  }
  return files;
}

/** The Dockerfile of the service on Alpine: the same steps on another base image. The planes need Debian. */
function alpine(): Files {
  const path = "deploy/docker/Dockerfile";
  const text = readFileSync(fromRoot(path), "utf8");
  const [, base] = text.match(/^# Alpine: (\S+)$/m) ?? [];
  if (base === undefined) throw new Error(`${path}: the line "# Alpine: <image>" is missing`);
  const from = text.indexOf("ARG NODE_IMAGE=");
  const to = text.indexOf("\n# nginx with Lua");
  const stages = text
    .slice(from, to)
    .replace(/^ARG NODE_IMAGE=.*$/m, `ARG NODE_IMAGE=${base}`)
    .replace(/^# An Envoy .*\nARG ENVOY_IMAGE=.*\n/m, "");
  return new Map([[`${path}.alpine`, `# ${note(path)}\n# The service on Alpine.\n${stages}`]]);
}

/** Variables of the Terraform example. */
function terraform(): Files {
  const values = readValues();
  const names = [
    ...["project_name", "environment", "region", "cluster_name", "namespace"],
    ...["service_replicas", "nginx_replicas", "envoy_replicas"],
    ...["max_connections_per_pod", "rate_limit_requests_per_minute"],
  ];
  const { idle_timeout_seconds } = values.load_balancer as { idle_timeout_seconds: number };
  const variables = { ...Object.fromEntries(names.map((name) => [name, values[name]])), idle_timeout_seconds };
  const path = "deploy/terraform/examples/complete/terraform.auto.tfvars.json";
  return new Map([[path, `${JSON.stringify(variables, null, 2)}\n`]]);
}

/** Variables of the Ansible playbooks. `environment` is a keyword there. */
function ansible(): Files {
  const { environment, ...values } = readValues();
  const names = ["project_name", "redis_service_name", "max_connections_per_pod", "rate_limit_requests_per_minute"];
  const variables = { environment_name: environment, ...Object.fromEntries(names.map((name) => [name, values[name]])) };
  const lines = Object.entries(variables).map(([name, value]) => `${name}: ${String(value)}\n`);
  const path = "deploy/ansible/group_vars/all/values.yml";
  return new Map([[path, `# ${note(`${CHART}/values.yaml`)}\n${lines.join("")}`]]);
}

function listed(folder: string, recursive = false): string[] {
  try {
    const entries = readdirSync(fromRoot(folder), { recursive, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => `${parentPath}/${name}`);
    return files.map((path) => path.slice(fromRoot(folder).length + 1)).sort();
  } catch {
    return [];
  }
}
