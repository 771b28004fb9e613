/* SPDX-License-Identifier: BSD-3-Clause */
/* What plain C reaches on this machine: a copy, products that stay in registers, digits to numbers. */
#include <stddef.h>

/* Copy n numbers. */
void copy(double *restrict to, const double *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Do 2 * 64 * n operations on 64 numbers: enough independent ones to hide how long each takes. */
void multiply(double *numbers, size_t n)
{
    double own[64];
    for (int j = 0; j < 64; j++)
        own[j] = numbers[j];
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 64; j++)
            own[j] = own[j] * 0.999999 + 1e-6;
    for (int j = 0; j < 64; j++)
        numbers[j] = own[j];
}

/* Read the numbers of a text of digits, points, signs and separators, byte by byte; return their sum. */
double read_digits(const char *text, size_t n)
{
    double sum = 0.0;
    long long value = 0;
    int sign = 1, places = 0, after = 0;
    static const double power[19] = {1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9,
                                     1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17, 1e-18};
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            value = 10 * value + (c - '0');
            places += after;
        } else if (c == '.') {
            after = 1;
        } else if (c == '-') {
            sign = -1;
        } else {
            sum += sign * (double)value * power[places];
            value = 0;
            sign = 1;
            places = after = 0;
        }
    }
    return sum;
}
