import { defineConfig } from "vite";

// The server reads the page from here, in a checkout and in a wheel (src/noetl/server/page_files.py).
const outDir = "../src/noetl/page";

export default defineConfig({
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
