// deno-lint-ignore-file no-console -- a command: what it prints is its answer
// Generates what follows from the CRDs: the types in src/api/, the field references in docs/reference/, the chart's copies.
//   deno task gen            writes them
//   deno task gen --check    fails when one of them is not what the CRD says
import { compile } from "json-schema-to-typescript";
import { parse } from "yaml";

interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly [key: string]: unknown;
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
}

/** Each CRD, and the file its types go to. */
const CRDS = [
  {
    crd: "ipsec.bnerd.net_ipsecgateways.yaml",
    types: "src/api/ipsec_gateway_types.ts",
    reference: "docs/reference/ipsecgateway.md",
  },
];

/** What may stand in a schema; anything else is a slip of the YAML (an unquoted comma, say). */
const KEYWORDS = new Set(
  "type description default enum required properties items additionalProperties pattern format minimum maximum minLength maxLength minItems maxItems maxProperties anyOf"
    .split(" "),
);

/** Fails on a keyword that no schema has, with its path. */
function checkKeywords(schema: Schema, path: string): void {
  for (const key of Object.keys(schema)) {
    if (!KEYWORDS.has(key) && !key.startsWith("x-kubernetes-")) {
      throw new SyntaxError(`Cannot read the CRD: ${path} has the unknown keyword ${JSON.stringify(key)}`);
    }
  }
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    checkKeywords(property, `${path}.${name}`);
  }
  if (schema.items) checkKeywords(schema.items, `${path}[]`);
}

/** An OpenAPI v3 schema as the JSON schema that json-schema-to-typescript understands. */
function jsonSchema(schema: Schema): Schema {
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key.startsWith("x-kubernetes") || key === "default" || key === "maxItems" || key === "minItems") {
      continue;
    }
    if (key === "properties") {
      out[key] = Object.fromEntries(
        Object.entries(value as Record<string, Schema>).map((
          [name, property],
        ) => [name, jsonSchema(property)]),
      );
    } else if (key === "items" || (key === "additionalProperties" && typeof value === "object")) {
      out[key] = jsonSchema(value as Schema);
    } else out[key] = value;
  }
  if (schema["x-kubernetes-int-or-string"]) return { anyOf: [{ type: "integer" }, { type: "string" }] };
  // What the API server defaults is always there when a controller reads the object.
  const defaulted = Object.entries(schema.properties ?? {}).filter(([, p]) => p.default !== undefined).map((
    [n],
  ) => n);
  if (schema.type === "object") {
    out.additionalProperties ??= false;
    out.required = [...new Set([...(schema.required ?? []), ...defaulted])];
  }
  return out as Schema;
}

async function types(definition: Definition): Promise<string> {
  const version = definition.spec.versions[0]!;
  const { properties, ...rest } = version.schema.openAPIV3Schema;
  const kind = definition.spec.names.kind;
  const header = "// Generated from crds/ by `deno task gen`; do not edit.\n";
  let text = header;
  for (const part of ["spec", "status"]) {
    const schema = properties?.[part];
    if (!schema) continue;
    const title = kind + part[0]!.toUpperCase() + part.slice(1);
    text += await compile(
      jsonSchema({ ...rest, ...schema, required: schema.required ?? [] }) as object,
      title,
      {
        bannerComment: "",
        additionalProperties: false,
        format: true,
      },
    );
  }
  return text;
}

/** The fields of a schema as rows of a table, depth first. */
function rows(schema: Schema, path: string): string[] {
  const out: string[] = [];
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const here = path ? `${path}.${name}` : name;
    const list = property.type === "array" ? property.items : undefined;
    const kind = list ? `[]${list.type ?? ""}` : property.type ?? "";
    const notes = [
      schema.required?.includes(name) ? "required" : "",
      property.default !== undefined ? `default \`${JSON.stringify(property.default)}\`` : "",
      property.enum ? property.enum.map((v) => `\`${v}\``).join(" ") : "",
    ].filter(Boolean).join("; ");
    out.push(
      `| \`${here}${list ? "[]" : ""}\` | ${kind} | ${notes} | ${
        (property.description ?? "").replaceAll("|", "\\|")
      } |`,
    );
    out.push(...rows(list ?? property, here + (list ? "[]" : "")));
  }
  return out;
}

function reference(definition: Definition): string {
  const { group, names, versions } = definition.spec;
  const version = versions[0]!;
  const schema = version.schema.openAPIV3Schema;
  const part = (
    name: string,
  ) => [
    `## ${name}`,
    "",
    "| field | type | | what it is |",
    "| --- | --- | --- | --- |",
    ...rows(schema.properties?.[name] ?? {}, name),
    "",
  ];
  const rules = JSON.stringify(schema).matchAll(/"message":"([^"]+)"/g);
  return [
    `# ${names.kind}`,
    "",
    `<!-- Generated from crds/ by \`deno task gen\`; do not edit. -->`,
    "",
    `\`apiVersion: ${group}/${version.name}\`. ${schema.description ?? ""}`,
    "",
    ...part("spec"),
    "## Rules the API server checks at apply",
    "",
    ...[...new Set([...rules].map((match) => `- ${match[1]}`))],
    "",
    ...part("status"),
  ].join("\n");
}

if (import.meta.main) {
  const check = Deno.args.includes("--check");
  const root = new URL("../", import.meta.url);
  const stale: string[] = [];
  for (const { crd, types: typesFile, reference: referenceFile } of CRDS) {
    const source = await Deno.readTextFile(new URL(`crds/${crd}`, root));
    const definition = parse(source) as Definition;
    checkKeywords(definition.spec.versions[0]!.schema.openAPIV3Schema, definition.spec.names.kind);
    const files: readonly (readonly [string, string])[] = [
      [typesFile, await types(definition)],
      [referenceFile, reference(definition)],
      [`charts/ipsec-operator/files/crds/${crd}`, source],
    ];
    for (const [file, text] of files) {
      const url = new URL(file, root);
      if (!check) {
        await Deno.mkdir(new URL(".", url), { recursive: true });
        await Deno.writeTextFile(url, text);
      } else if ((await Deno.readTextFile(url).catch(() => "")) !== text) {
        stale.push(`${file} is not what crds/${crd} says: run deno task gen`);
      }
    }
  }
  for (const problem of stale) console.error(problem);
  Deno.exit(stale.length ? 1 : 0);
}
