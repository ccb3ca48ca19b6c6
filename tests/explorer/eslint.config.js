// The linter's rules for the explorer's scripts.
const js = require('@eslint/js');
const globals = require('globals');

/** Ways to make HTML or code of a text. Values of entities only become text nodes. */
const DANGEROUS = ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'setHTMLUnsafe', 'createContextualFragment'];

module.exports = [
  js.configs.recommended,
  {
    files: ['**/*.js'],
    languageOptions: { ecmaVersion: 2023, sourceType: 'module', globals: { ...globals.browser, begun: 'readonly' } },
    rules: {
      eqeqeq: 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'max-len': ['error', { code: 140 }],
      'max-lines-per-function': ['error', { max: 60 }],
      'no-restricted-syntax': ['error', ...DANGEROUS.map((name) => ({
        selector: `MemberExpression[property.name='${name.split('.').at(-1)}']`,
        message: `${name} makes code of a text.`,
      }))],
    },
  },
  {
    // An ordinary script: modules see the names that it declares at the top.
    files: ['early.js'],
    languageOptions: { sourceType: 'script' },
    rules: { 'no-redeclare': 'off', 'no-unused-vars': ['error', { varsIgnorePattern: '^begun$' }] },
  },
  {
    files: ['eslint.config.js'],
    languageOptions: { sourceType: 'commonjs', globals: globals.node },
  },
];
