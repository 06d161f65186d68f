// What a call answers in place of what it would do: EMULATOR_ANSWER=CALL=CODE. So tests ask what becomes of codes that a library
// of today does not have.
#pragma once
#include <cstdlib>
#include <cstring>

static inline int answer_of(const char* call) {
    const char* text = getenv("EMULATOR_ANSWER");
    const size_t n = strlen(call);
    return text && strncmp(text, call, n) == 0 && text[n] == '=' ? atoi(text + n + 1) : 0;
}
#define ANSWER(call) if (const int code = answer_of(call)) return code
