# libFuzzer programs, one per file of native/fuzz: `fuzz-grammar` and so on. They link the parts of
# the addon that do not use JavaScript. Included by the root CMakeLists.txt in builds for the
# address sanitizer.
set(native "${CMAKE_CURRENT_SOURCE_DIR}/native")
file(GLOB fuzzed CONFIGURE_DEPENDS "${native}/grammar/*.cpp" "${native}/schema/*.cpp")
foreach(name templates message_text custom_input forced_call format_rules)
  list(APPEND fuzzed "${native}/chat/${name}.cpp")
endforeach()
list(APPEND fuzzed "${native}/model/tokens.cpp" "${native}/model/specials.cpp")
add_library(recua-fuzzed OBJECT EXCLUDE_FROM_ALL ${fuzzed})
target_include_directories(recua-fuzzed PRIVATE ${RECUA_HEADERS})
target_compile_options(recua-fuzzed PRIVATE -fsanitize=undefined -fno-sanitize-recover=undefined -D_GLIBCXX_ASSERTIONS)
target_link_libraries(recua-fuzzed PRIVATE llama-common llama ggml)

add_custom_target(fuzz)
file(GLOB targets CONFIGURE_DEPENDS "${native}/fuzz/*.cpp")
foreach(path ${targets})
  get_filename_component(name "${path}" NAME_WE)
  add_executable(fuzz-${name} EXCLUDE_FROM_ALL "${path}" $<TARGET_OBJECTS:recua-fuzzed>)
  target_include_directories(fuzz-${name} PRIVATE ${RECUA_HEADERS})
  target_compile_definitions(fuzz-${name} PRIVATE
    RECUA_FUZZ_MODEL="${CMAKE_CURRENT_SOURCE_DIR}/builtin/builtin.gguf"
    RECUA_FUZZ_TEMPLATES="${RECUA_LLAMA_CPP}/models/templates")
  target_link_libraries(fuzz-${name} PRIVATE llama-common llama ggml)
  target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer,undefined)
  set_target_properties(fuzz-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
  add_dependencies(fuzz fuzz-${name})
endforeach()
