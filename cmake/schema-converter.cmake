# Which JSON schema converter llama.cpp's chat parsers call: llama-common's functions that read a
# schema and make its grammar are renamed, and native/llama-common/schema_hooks.cpp takes their
# names. It calls the converter that the addon has set (native/schema/schema.h), or llama.cpp's own
# if none is set, as in llama-server. Included by the root CMakeLists.txt once the targets exist.
set(converter
  json_schema_to_grammar=llama_json_schema_to_grammar
  build_grammar=llama_build_grammar
  common_chat_schema_from_json=llama_chat_schema_from_json)
get_target_property(common_folder llama-common SOURCE_DIR)
# A directory's own properties of its sources: CMake 3.14 cannot set them from another one.
add_library(recua-llama-schema OBJECT
  "${common_folder}/json-schema-to-grammar.cpp" "${common_folder}/json-schema.cpp")
target_include_directories(recua-llama-schema PRIVATE $<TARGET_PROPERTY:llama-common,INCLUDE_DIRECTORIES>)
target_compile_definitions(recua-llama-schema PRIVATE ${converter})
target_compile_features(recua-llama-schema PRIVATE cxx_std_17)

get_target_property(common_sources llama-common SOURCES)
list(REMOVE_ITEM common_sources json-schema-to-grammar.cpp json-schema.cpp)
list(APPEND common_sources
  "${CMAKE_CURRENT_SOURCE_DIR}/native/llama-common/schema_hooks.cpp" $<TARGET_OBJECTS:recua-llama-schema>)
set_property(TARGET llama-common PROPERTY SOURCES ${common_sources})
target_include_directories(llama-common PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/native/llama-common")
