# Kernels of the runtime itself: MLIR, which becomes PTX when the runtime is
# built, by tools that come with MLIR. OwnKernels.cpp holds the texts.
set(folders /usr/lib/llvm-22/bin)
if(MLIR_DIR)
  list(PREPEND folders ${MLIR_DIR}/../../../bin)
endif()
foreach(tool mlir-opt mlir-translate llc)
  find_program(FSDP_${tool} ${tool} PATHS ${folders} NO_DEFAULT_PATH REQUIRED
    DOC "${tool} of LLVM 22, for kernels of the runtime")
endforeach()

# fsdp_add_ptx(NAME TEXT): NAME.ptx of the MLIR that TEXT is.
set(FSDP_PTX)
function(fsdp_add_ptx name text)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/ptx/${name})
  file(CONFIGURE OUTPUT ${file}.mlir CONTENT "${text}")
  add_custom_command(OUTPUT ${file}.ptx
    COMMAND ${FSDP_mlir-opt} ${file}.mlir -o ${file}.llvm.mlir
      --inline --convert-scf-to-cf --convert-to-llvm --reconcile-unrealized-casts
    COMMAND ${FSDP_mlir-translate} --mlir-to-llvmir ${file}.llvm.mlir -o ${file}.ll
    COMMAND ${FSDP_llc} -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80 -mattr=+ptx80
      --fp-contract=off --asm-verbose=false ${file}.ll -o ${file}.ptx
    DEPENDS ${file}.mlir ${FSDP_mlir-opt} ${FSDP_mlir-translate} ${FSDP_llc}
    COMMENT "Compiling kernels ${name}" VERBATIM)
  set(FSDP_PTX ${FSDP_PTX} ${file}.ptx PARENT_SCOPE)
endfunction()

foreach(source Launch.mlir Runs.mlir Marks.mlir SumTree.mlir.in Sum.mlir.in SumKernel.mlir.in)
  set(path ${CMAKE_CURRENT_LIST_DIR}/${source})
  file(READ ${path} ${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
endforeach()
fsdp_add_ptx(marks "${Launch.mlir}${Runs.mlir}${Marks.mlir}")

# Functions that add up so many elements at a time: trees of one to four ranks,
# and of any number.
function(fsdp_write_sum out LANES ALIGNMENT SUM_ALIGNMENT RESULT_ALIGNMENT)
  string(CONFIGURE "${Sum.mlir.in}" text)
  foreach(RANKS RANGE 2 4)
    math(EXPR LEFT "(${RANKS} + 1) / 2")
    math(EXPR RIGHT "${RANKS} / 2")
    math(EXPR FEWER "${RANKS} - 1")
    string(CONFIGURE "${SumTree.mlir.in}" tree)
    string(APPEND text "${tree}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Bytes of LANES elements that one load or store moves at most.
function(fsdp_set_alignment out lanes bytes)
  math(EXPR alignment "${lanes} * ${bytes}")
  if(alignment GREATER 16)
    set(alignment 16)
  endif()
  set(${out} ${alignment} PARENT_SCOPE)
endfunction()

# The kernel of one type: a thread takes LANES elements, in loads of 16 bytes or
# all of them, or one where these are not aligned or left over. SUM is the type
# that elements are added in, QUOTIENT that of the division, RESULT what is
# stored. Operations of arith: WIDEN takes an element to SUM, ADD adds two of
# these, WRAP takes the result to QUOTIENT, DIVIDE divides it, ROUND takes the
# quotient to RESULT, CONVERT the divisor to QUOTIENT, which holds it
# (checkReduction). bitcast: no change.
function(fsdp_add_sum NAME ELEMENT BYTES LANES SUM SUM_BYTES QUOTIENT RESULT
                      RESULT_BYTES WIDEN ADD WRAP DIVIDE ROUND CONVERT)
  math(EXPR FURTHER "${LANES} - 1")
  math(EXPR LEVEL_BYTES "256 * ${LANES} * ${SUM_BYTES}")
  fsdp_set_alignment(alignment ${LANES} ${BYTES})
  fsdp_set_alignment(result ${LANES} ${RESULT_BYTES})
  fsdp_write_sum(vector ${LANES} ${alignment} 16 ${result})
  fsdp_write_sum(single 1 ${BYTES} ${SUM_BYTES} ${RESULT_BYTES})
  string(CONFIGURE "${SumKernel.mlir.in}" kernel)
  fsdp_add_ptx(sum_${NAME} "${Launch.mlir}${vector}${single}${kernel}")
  set(FSDP_PTX ${FSDP_PTX} PARENT_SCOPE)
endfunction()
#            NAME ELEMENT BYTES LANES SUM SUM_BYTES QUOTIENT RESULT RESULT_BYTES WIDEN ADD WRAP DIVIDE ROUND CONVERT
fsdp_add_sum(f32  f32  4 4  f32 4  f32  f32  4  bitcast addf bitcast divf  bitcast sitofp)
fsdp_add_sum(f64  f64  8 4  f64 8  f64  f64  8  bitcast addf bitcast divf  bitcast sitofp)
fsdp_add_sum(f16  f16  2 8  f32 4  f32  f16  2  extf    addf bitcast divf  truncf  sitofp)
fsdp_add_sum(bf16 bf16 2 8  f32 4  f32  bf16 2  extf    addf bitcast divf  truncf  sitofp)
fsdp_add_sum(i64  i64  8 4  i64 8  i64  i64  8  bitcast addi bitcast divsi bitcast bitcast)
fsdp_add_sum(i32  i32  4 4  i32 4  i32  i32  4  bitcast addi bitcast divsi bitcast trunci)
fsdp_add_sum(i16  i16  2 8  i32 4  i16  i16  2  extsi   addi trunci  divsi bitcast trunci)
fsdp_add_sum(i8   i8   1 8  i32 4  i8   i8   1  extsi   addi trunci  divsi bitcast trunci)
fsdp_add_sum(u8   i8   1 8  i32 4  i8   i8   1  extui   addi trunci  divui bitcast trunci)
# Partial sums of narrow floats, and sums of these.
fsdp_add_sum(f16_to_f32  f16  2 8  f32 4  f32  f32  4  extf    addf bitcast divf bitcast sitofp)
fsdp_add_sum(bf16_to_f32 bf16 2 8  f32 4  f32  f32  4  extf    addf bitcast divf bitcast sitofp)
fsdp_add_sum(f32_to_f16  f32  4 4  f32 4  f32  f16  2  bitcast addf bitcast divf truncf  sitofp)
fsdp_add_sum(f32_to_bf16 f32  4 4  f32 4  f32  bf16 2  bitcast addf bitcast divf truncf  sitofp)
