# For people who run node-gyp: hands over to the same cmake-js build as `npm run build`.
# "gypfile": false in package.json keeps npm from running this unasked.
{
  "targets": [
    {
      "target_name": "recua",
      "type": "none",
      "actions": [
        {
          "action_name": "build",
          "message": "Building Recua's addon by cmake-js",
          "inputs": ["CMakeLists.txt"],
          "outputs": ["<(PRODUCT_DIR)/recua.node.made-by-cmake-js"],
          "action": ["node", "scripts/build.mjs"]
        }
      ]
    }
  ]
}
