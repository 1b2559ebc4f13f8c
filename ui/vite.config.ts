import { defineConfig } from "vite";

// The server reads the page from here, in a checkout and in a wheel (src/noetl/server/page_files.py).
const outDir = "../src/noetl/page";

/** Loads the files of a view that is opened later. Vite's own helper also serves what this page has not (nonces, its
 *  events, browsers without modulepreload), and takes 0.7 kB of every first load. */
const PRELOAD = `
const links = {};
const add = (file) => (links[file] ??= new Promise((done, fail) => {
  const link = document.createElement("link");
  const isStyle = file.endsWith(".css");
  link.rel = isStyle ? "stylesheet" : "modulepreload";
  link.href = "/" + file;
  link.onerror = fail;
  if (isStyle) link.onload = done;
  else done();
  document.head.append(link);
}));
export const __vitePreload = (load, files = []) => Promise.all(files.map(add)).then(load);
`;

export default defineConfig({
  plugins: [
    {
      name: "small-preload",
      enforce: "pre",
      load: (id: string) => (id === "\0vite/preload-helper.js" ? PRELOAD : null),
    },
  ],
  // Calls of h are shorter than those of the automatic runtime by 1 kB of the compressed page.
  oxc: {
    jsx: { runtime: "classic", pragma: "createVNode", pragmaFrag: "VFragment" },
    jsxInject: `import { h as createVNode, Fragment as VFragment } from "preact"`,
  },
  build: {
    outDir,
    emptyOutDir: true,
    manifest: "manifest.json",
    assetsDir: "assets",
    assetsInlineLimit: 0, // the content security policy allows no font from a data URL
    modulePreload: { polyfill: false },
    target: ["chrome128", "firefox130", "safari18"],
    reportCompressedSize: false,
    rolldownOptions: {
      optimization: { inlineConst: { mode: "all", pass: 3 } },
      checks: { bundlerTimings: false }, // a slow machine is no reason for a warning
      output: {
        // Few files compress better than many: one script for each view would take a third more in all. The list of runs
        // is `start`, a run needs `run` as well, and everything else is loaded when it is first opened. A group takes
        // what its modules import, unless a group before it has it. tests/browser/test_budgets.py weighs them.
        codeSplitting: {
          groups: [
            { name: "start", test: /\/src\/(main|runs\/page)\.tsx$|\/src\/(run|parts)\/.*\.css$/ },
            { name: "run", test: /\/src\/run\/(page|timeline\/timeline)\.tsx$/ },
            { name: "rest", test: /^(?!.*\/node_modules\/).*\/src\/(?!editor\/|fork\/(edited|replay))/ },
            { name: "editor", test: /\/src\/(editor\/page|fork\/edited-playbook)\.tsx$/ },
          ],
        },
      },
    },
    license: { fileName: "licenses.md" }, // tools/page.py adds those of fonts
  },
});
